"""The plugin: the report as a tab of a run, and the live page in the navigation and as a tab of a DAG."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from millrace.airflow.links import REPORT_ROUTE

PREFIX = "/millrace"


async def page(scope: Any, receive: Any, send: Any) -> None:
    """The app with both pages, imported at the first request.

    Airflow loads plugins in the process of every task, and a web framework takes a second of processor time.
    """
    from millrace.airflow.page import app

    await app(scope, receive, send)


class MillracePlugin(AirflowPlugin):
    """Registered by the package's entry point."""

    name = "millrace"
    fastapi_apps = [{"app": page, "url_prefix": PREFIX, "name": "millrace"}]  # noqa: RUF012 - Airflow's own shape
    external_views = [  # noqa: RUF012
        {
            "name": "Report",
            "href": f"{PREFIX}/report/{{DAG_ID}}?run={{RUN_ID}}",
            "url_route": REPORT_ROUTE,
            "destination": "dag_run",
        },
        {
            "name": "Live",
            "href": f"{PREFIX}/live/",
            "url_route": "live",
            "destination": "nav",
            "nav_top_level": True,
        },
        {
            "name": "Live",
            "href": f"{PREFIX}/live/of/{{DAG_ID}}",
            "url_route": "live-of-dag",
            "destination": "dag",
        },
    ]
