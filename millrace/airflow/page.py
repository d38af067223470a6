"""The pages that the plugin shows: the report of a run, and the live page."""

from __future__ import annotations

from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from fastapi import Depends, FastAPI
from fastapi.responses import HTMLResponse

from millrace.airflow import live, reports
from millrace.charts import REPORT_POLICY
from millrace.dashboard.shown import text

# A report shows contents of messages: its scripts draw charts, outside the reader's session.
SHOWN_ONLY = {
    "Content-Security-Policy": f"{REPORT_POLICY}; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}

NONE_YET = """<!doctype html><meta charset="utf-8"><title>No report</title>
<body style="font-family: system-ui; margin: 3rem; color: #555">
<p>This run has no report yet. The task <b>report</b> writes it after the verdict.</p>"""

# Airflow does not protect a plugin's routes: each route checks the user itself, and the API docs are off.
app = FastAPI(title="millrace", docs_url=None, redoc_url=None, openapi_url=None)
app.include_router(live.router)


@app.get("/report/{dag_id}", dependencies=[Depends(requires_access_dag("GET"))])
def report(dag_id: str, run: str, user: GetUserDep) -> HTMLResponse:
    """The report of a run, for users who may read the DAG."""
    found = reports.find(dag_id, run)
    return HTMLResponse(text(found or NONE_YET), status_code=200 if found else 404, headers=SHOWN_ONLY)
