"""The web server of the live page: page, stream, alerts and their marks, reports, runbook, `/metrics`, `/targets`."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from millrace import charts
from millrace.dashboard import figures
from millrace.dashboard.history import History
from millrace.dashboard.hub import Hub
from millrace.dashboard.reader import Reader
from millrace.dashboard.surroundings import Surroundings
from millrace.errors import InfraError, UsageError
from millrace.settings import PACKAGE
from millrace.stores.topics import Publisher
from millrace.verbs import dispositions

PAGE = Path(__file__).resolve().parent / "page"
RUNBOOK = PACKAGE / "starter" / "docs" / "runbook"
"""What each alert of Prometheus leads to."""
ANSWERS_WITHIN_S = 10
SEND_WITHIN_S = 10
PING_EVERY_S = 5
BODY_MOST = 10_000
TOKEN_HEADER = "x-millrace-token"
TOO_OLD = "this alert is older than those that the page keeps; `millrace explain {}` finds it"

# The page builds all it shows as text nodes: with trusted types a browser refuses every text as HTML, ours included.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
# A report holds its scripts as text. In a sandbox they have no origin, and they reach no server.
REPORT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'none'; sandbox allow-scripts"
)
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

T = TypeVar("T")


class Guarded:
    """Adds the headers that keep a page to itself."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in {"Content-Security-Policy": PAGE_POLICY, **HEADERS}.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, guarded if scope["type"] == "http" else send)


def application(
    hub: Hub,
    reader: Reader,
    surroundings: Surroundings,
    history: History,
    publisher: Publisher,
    assets: Path,
    records: Path,
) -> Starlette:
    """The server; reader and surroundings run while it does."""
    token = secrets.token_urlsafe()

    async def page(request: Request) -> Response:
        return FileResponse(PAGE / "index.html")

    async def live(request: Request) -> Response:
        browser = hub.join()
        if browser is None:
            return PlainTextResponse("too many pages are open", status_code=503)
        try:
            full = await _answer(reader, reader.full)
        except BaseException:
            hub.leave(browser)
            raise
        first = [
            ServerSentEvent(data=surroundings.facts, event="patterns"),
            ServerSentEvent(data=json.dumps(full | {"token": token}, separators=(",", ":")), event="full"),
        ]
        return EventSourceResponse(hub.events(browser, first), ping=PING_EVERY_S, send_timeout=SEND_WITHIN_S)

    async def alert(request: Request) -> Response:
        name, alert_id = request.path_params["pattern"], request.path_params["alert_id"]
        board = reader.boards.get(name)
        found = await _answer(reader, lambda: board.alert(alert_id)) if board else None
        if board is None or found is None:
            return JSONResponse({"problem": TOO_OLD.format(alert_id)}, status_code=404)
        subject = found.pop("full_subject")
        rows, problem = await asyncio.to_thread(history.of, board.variant, str(subject))
        return JSONResponse({**found, "history": rows, "history_problem": problem})

    async def mark(request: Request) -> Response:
        # A page of another origin can neither read the token nor send this header.
        origin, given = request.headers.get("origin"), request.headers.get(TOKEN_HEADER, "")
        # As bytes: of two texts, both must be ASCII.
        is_own = secrets.compare_digest(given.encode(), token.encode())
        if origin != f"http://{request.headers.get('host')}" or not is_own:
            return JSONResponse({"problem": "only a page that this server has sent may mark alerts"}, status_code=403)
        if int(request.headers.get("content-length") or BODY_MOST + 1) > BODY_MOST:
            return JSONResponse({"problem": f"a request has at most {BODY_MOST} bytes"}, status_code=413)
        board, alert_id = reader.boards.get(request.path_params["pattern"]), request.path_params["alert_id"]
        found = await _answer(reader, lambda: board.alert(alert_id)) if board else None
        if board is None or found is None:
            return JSONResponse({"problem": TOO_OLD.format(alert_id)}, status_code=404)
        try:
            asked = await request.json()
            words = {name: str(asked.get(name, "")) for name in ("mark", "by", "note")}
            alert = {"alert_id": found["id"], **{name: found[name] for name in ("rule", "rule_version", "at_ms")}}
            made = await asyncio.to_thread(dispositions.mark, publisher, board.variant, alert, **words)
        except (ValueError, AttributeError, RecursionError, UsageError) as error:
            return JSONResponse({"problem": str(error)}, status_code=400)
        except InfraError as error:
            return JSONResponse({"problem": str(error)}, status_code=503)
        return JSONResponse(asdict(made))

    async def report(request: Request) -> Response:
        path = records / Path(request.path_params["name"]).name
        if path.suffix != ".html" or not path.exists():
            return PlainTextResponse("there is no such report", status_code=404)
        return FileResponse(path, headers={"Content-Security-Policy": REPORT_POLICY})

    async def runbook(request: Request) -> Response:
        path = RUNBOOK / f"{Path(request.path_params['name']).name}.md"
        if not path.exists():
            return PlainTextResponse("there is no such page of the runbook", status_code=404)
        return FileResponse(path, media_type="text/plain; charset=utf-8")

    async def metrics(request: Request) -> Response:
        found = await _answer(reader, lambda: figures.text(reader.boards, reader.around))
        return Response(found, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def targets(request: Request) -> Response:
        return JSONResponse(await _answer(reader, lambda: figures.targets(reader.around)))

    async def is_up(request: Request) -> Response:
        return PlainTextResponse("up")

    @asynccontextmanager
    async def running(app: Starlette) -> AsyncIterator[None]:
        hub.open()
        reader.start()
        surroundings.start()
        yield
        await asyncio.to_thread(surroundings.end)
        await asyncio.to_thread(reader.end)

    return Starlette(
        routes=[
            Route("/", page),
            Route("/up", is_up),
            Route("/live", live),
            Route("/metrics", metrics),
            Route("/targets", targets),
            Route("/alerts/{pattern}/{alert_id}", alert),
            Route("/alerts/{pattern}/{alert_id}/mark", mark, methods=["POST"]),
            Route("/reports/{name}", report),
            Route("/runbook/{name}", runbook),
            Mount("/page", StaticFiles(directory=PAGE)),
            Mount("/charts", StaticFiles(directory=charts.HERE)),
            Mount("/assets", StaticFiles(directory=assets)),
        ],
        # No host but this machine's: a web page whose name leads here reads nothing.
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"]),
            Middleware(Guarded),
        ],
        lifespan=running,
    )


async def _answer(reader: Reader, question: Callable[[], T]) -> T:
    return await asyncio.wait_for(asyncio.wrap_future(reader.ask(question)), ANSWERS_WITHIN_S)
