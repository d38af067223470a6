"""The live page behind Airflow's log-in: its server answers this machine alone, and Airflow's passes requests on."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator
from typing import Annotated
from urllib.parse import quote, urlsplit

import httpx
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.configuration import conf
from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse

from millrace.servers.dashboard import url
from millrace.settings import Settings

PREFIXES = ("deploy-", "prove-")
"""Of the DAGs of a pattern, before its name."""
ANSWERS_WITHIN_S = 15
"""Longer than the pause between two pings of the stream."""
STREAMS_FOR_S = 300
"""Then the page connects again, and its user is asked for again."""
BODY_MOST = 10_000
PASSED_ON = ("content-type", "x-millrace-token")
RETURNED = ("cache-control", "content-type", "referrer-policy", "x-content-type-options")
AWAY = "The live page does not answer on the machine of Airflow's api-server; `millrace up dashboard` starts it."

router = APIRouter(prefix="/live")


def may_look(user: GetUserDep) -> BaseUser:
    """Refuse users who may not read DAGs: the page shows all patterns."""
    if not get_auth_manager().is_authorized_dag(method="GET", user=user):
        raise HTTPException(403, "the live page is for users who may read DAGs")
    return user


def may_mark(user: GetUserDep) -> BaseUser:
    """Refuse users who may not trigger runs."""
    if not get_auth_manager().is_authorized_dag(method="POST", access_entity=DagAccessEntity.RUN, user=user):
        raise HTTPException(403, "alerts are marked by users who may trigger runs")
    return user


@router.get("/of/{dag_id}", dependencies=[Depends(may_look)])
def of_dag(dag_id: str) -> Response:
    """The page of a DAG's pattern; of another DAG the page of all."""
    name = next((dag_id.removeprefix(prefix) for prefix in PREFIXES if dag_id.startswith(prefix)), "")
    return RedirectResponse(f"../#/{quote(name, safe='')}")


@router.post("/alerts/{pattern}/{alert_id}/mark")
async def mark(request: Request, pattern: str, alert_id: str, user: Annotated[BaseUser, Depends(may_mark)]) -> Response:
    """Mark an alert in the name of the user who has logged in."""
    if request.headers.get("origin", "") not in _own_origins(request):
        raise HTTPException(403, "only a page of this Airflow may mark alerts")
    if int(request.headers.get("content-length") or BODY_MOST + 1) > BODY_MOST:
        raise HTTPException(413, f"a request has at most {BODY_MOST} bytes")
    try:
        asked = dict(await request.json())
        body = json.dumps(asked | {"by": user.get_name()}).encode()
    except (ValueError, TypeError, RecursionError):
        raise HTTPException(400, "a mark is an object of JSON") from None
    return await _passed_on(request, f"alerts/{quote(pattern, safe='')}/{quote(alert_id, safe='')}/mark", body)


@router.get("/{path:path}", dependencies=[Depends(may_look)])
async def page(request: Request, path: str) -> Response:
    """The page, its stream of events, its files, its reports, and alerts that are read back from Kafka."""
    return await _passed_on(request, quote(path))


def _own_origins(request: Request) -> set[str]:
    """Airflow's address as the browser has it: of the request, or as configured where a proxy is in between."""
    host, configured = request.headers.get("host", ""), urlsplit(conf.get("api", "base_url", fallback=""))
    return {f"{request.url.scheme}://{host}"} | ({f"{configured.scheme}://{configured.netloc}"} - {"://"})


async def _passed_on(request: Request, path: str, body: bytes | None = None) -> Response:
    """The answer of the page's server, part by part as it comes; Airflow's cookies and tokens stay here."""
    base = url(Settings.read(os.environ))
    headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
    headers |= {"Origin": base.rstrip("/"), "Accept-Encoding": "identity"}
    # Without certificates, which it would read at each request: it is plain HTTP on this machine.
    client = httpx.AsyncClient(timeout=ANSWERS_WITHIN_S, trust_env=False, verify=False)
    try:
        address = f"{base}{path}?{request.url.query}" if request.url.query else f"{base}{path}"
        asked = client.build_request(request.method, address, content=body, headers=headers)
        answer = await client.send(asked, stream=True)
    except httpx.TransportError:
        await client.aclose()
        return PlainTextResponse(AWAY, 502)

    async def parts() -> AsyncIterator[bytes]:
        ends = time.monotonic() + STREAMS_FOR_S
        try:
            async for part in answer.aiter_raw():
                yield part
                if time.monotonic() > ends:
                    return
        except httpx.TransportError:
            return  # the page connects again by itself
        finally:
            await answer.aclose()
            await client.aclose()

    returned = {name: answer.headers[name] for name in RETURNED if name in answer.headers}
    # Airflow shows the page in a frame.
    policy = answer.headers.get("content-security-policy", "default-src 'none'")
    returned["content-security-policy"] = policy.replace("frame-ancestors 'none'", "frame-ancestors 'self'")
    return StreamingResponse(parts(), answer.status_code, headers=returned)
