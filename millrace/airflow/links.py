"""Buttons on a task that lead to the engines' own pages and to the run's report."""

from __future__ import annotations

from urllib.parse import quote

from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.types import TaskInstanceKey

from millrace import registry


class EnginePage(BaseOperatorLink):
    """The page of the pattern's job on one engine, from the task's last result."""

    engine = ""
    title = ""

    @property
    def name(self) -> str:
        return f"{self.title} job"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        return getattr(operator, "pages", {}).get(self.engine, "")


def _page_of(engine: registry.Manifest) -> EnginePage:
    # A class for each: Airflow stores the address of a link under the name of its class.
    page: type[EnginePage] = type(f"{engine.title}Page", (EnginePage,), {"engine": engine.name, "title": engine.title})
    return page()


ENGINE_PAGES = tuple(_page_of(engine) for engine in registry.manifests())


class ReportPage(BaseOperatorLink):
    """The tab of the run page that shows the report."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        return f"/dags/{quote(ti_key.dag_id)}/runs/{quote(ti_key.run_id)}/plugin/{REPORT_ROUTE}"


REPORT_ROUTE = "report"
"""Where the plugin puts its tab on the run page."""
