"""The web server of the live page: page, stream, alerts and their marks, reports, runbook, `/metrics`, `/targets`."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from millrace import charts
from millrace.dashboard import figures
from millrace.dashboard.archive import Archive, asked, places
from millrace.dashboard.board import Board
from millrace.dashboard.history import History
from millrace.dashboard.hub import Hub
from millrace.dashboard.reader import Reader
from millrace.dashboard.shown import text
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
FORMS = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
TOO_OLD = "this alert is older than those that the page keeps; `millrace explain {}` finds it"

# The page builds all it shows as text nodes: with trusted types a browser refuses every text as HTML, ours included.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
REPORT_POLICY = f"{charts.REPORT_POLICY}; frame-ancestors 'none'"
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
    archive: Archive,
    publisher: Publisher,
    assets: Path,
    records: Path,
) -> Starlette:
    """The server; reader and surroundings run while it does."""
    token = secrets.token_urlsafe()
    reading = asyncio.Lock()
    """One request at a time reads topics of alerts."""

    def has_token(request: Request) -> bool:
        # As bytes: of two texts, both must be ASCII.
        return secrets.compare_digest(request.headers.get(TOKEN_HEADER, "").encode(), token.encode())

    async def found_alert(request: Request) -> tuple[Board, dict[str, Any]] | None:
        """The alert of a request: of the latest ones, or at the place that the request names."""
        name, alert_id = request.path_params["pattern"], request.path_params["alert_id"]
        if (board := reader.boards.get(name)) is None:
            return None
        found = await _answer(reader, lambda: board.alert(alert_id))
        if found is None and (place := request.query_params.get("place")) and has_token(request):
            async with reading:
                older = await asyncio.to_thread(archive.at, board.variant, alert_id, places(place))
            found = older and await _answer(reader, lambda: board.explained(older))
        return (board, found) if found else None

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
        try:
            one = await found_alert(request)
        except (UsageError, InfraError) as error:
            return _refused(error)
        if one is None:
            return JSONResponse({"problem": TOO_OLD.format(request.path_params["alert_id"])}, status_code=404)
        board, found = one
        subject = found.pop("full_subject")
        rows, problem = await asyncio.to_thread(history.of, board.variant, str(subject))
        return JSONResponse({**found, "history": rows, "history_problem": problem})

    async def mark(request: Request) -> Response:
        # A page of another origin can neither read the token nor send this header.
        origin = request.headers.get("origin")
        if origin != f"http://{request.headers.get('host')}" or not has_token(request):
            return JSONResponse({"problem": "only a page that this server has sent may mark alerts"}, status_code=403)
        if int(request.headers.get("content-length") or BODY_MOST + 1) > BODY_MOST:
            return JSONResponse({"problem": f"a request has at most {BODY_MOST} bytes"}, status_code=413)
        try:
            if (one := await found_alert(request)) is None:
                return JSONResponse({"problem": TOO_OLD.format(request.path_params["alert_id"])}, status_code=404)
            board, found = one
            asked = await request.json()
            words = {name: str(asked.get(name, "")) for name in ("mark", "by", "note")}
            alert = {"alert_id": found["id"], **{name: found[name] for name in ("rule", "rule_version", "at_ms")}}
            made = await asyncio.to_thread(dispositions.mark, publisher, board.variant, alert, **words)
        except (ValueError, AttributeError, RecursionError, UsageError, InfraError) as error:
            return _refused(error)
        return JSONResponse(text(asdict(made)))

    async def older(request: Request) -> Response:
        return await read_back(request, "")

    async def export(request: Request) -> Response:
        return await read_back(request, request.path_params["suffix"])

    async def read_back(request: Request, suffix: str) -> Response:
        """A page of alerts, or all that fit as a file. Reading costs, so a page of another origin cannot ask for it."""
        if not has_token(request):
            return JSONResponse({"problem": "only a page that this server has sent may read topics"}, status_code=403)
        board = reader.boards.get(request.path_params["pattern"])
        if board is None or suffix not in ("", *FORMS):
            return JSONResponse({"problem": "there is no such list of alerts"}, status_code=404)
        try:
            only, before = asked(request.query_params)
            marks = await _answer(reader, board.marks)
            async with reading:
                if not suffix:
                    return JSONResponse(await asyncio.to_thread(archive.older, board.variant, only, marks, before))
                written = await asyncio.to_thread(archive.export, board.variant, only, f".{suffix}")
        except (ValueError, UsageError, InfraError) as error:
            return _refused(error)
        name = f'attachment; filename="{board.variant.name}-alerts.{suffix}"'
        return Response(written, media_type=FORMS[suffix], headers={"Content-Disposition": name})

    def report(request: Request) -> Response:
        path = records / Path(request.path_params["name"]).name
        if path.suffix != ".html" or not path.exists():
            return PlainTextResponse("there is no such report", status_code=404)
        return HTMLResponse(text(path.read_text(encoding="utf-8")), headers={"Content-Security-Policy": REPORT_POLICY})

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
            Route("/older/{pattern}", older),
            Route("/export/{pattern}.{suffix}", export),
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


def _refused(error: Exception) -> Response:
    """The answer where a request is wrong, or where a server that it needs is away."""
    status = 503 if isinstance(error, InfraError) and not isinstance(error, UsageError) else 400
    return JSONResponse({"problem": text(str(error))}, status_code=status)


async def _answer(reader: Reader, question: Callable[[], T]) -> T:
    return await asyncio.wait_for(asyncio.wrap_future(reader.ask(question)), ANSWERS_WITHIN_S)
