"""How verbs print: tables on a terminal, tab-separated lines to a pipe, JSON with --json."""

import dataclasses
import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from millrace.errors import UsageError
from millrace.settings import JSON_VERSION, Settings
from millrace.stack import profiles_of
from millrace.stack.services import services

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from millrace.cli.failures import Failure

Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]


def refuse_json(json: bool, instead: str) -> None:
    """Refuse --json where a verb runs until Ctrl-C: it has no one object to print."""
    if json:
        raise UsageError(f"--json prints one object, and this runs until Ctrl-C; {instead}")


def complete_services(incomplete: str) -> list[str]:
    """The services that begin with this."""
    return [name for name in services(settings()) if name.startswith(incomplete)]


def complete_servers(incomplete: str) -> list[str]:
    """The servers and services that begin with this."""
    known = services(settings(), profiles_of(settings()))
    servers = (server.name for service in known.values() for server in service.servers)
    return [name for name in (*known, *servers) if name.startswith(incomplete)]


ServerNames = Annotated[
    list[str],
    typer.Argument(
        metavar="SERVER",
        help="A server (kafka-1), or a service for all of its servers (kafka). `millrace status` lists the servers.",
        autocompletion=complete_servers,
    ),
]


def settings() -> Settings:
    return Settings.read(os.environ)


def result_console() -> Console:
    """Standard output, for results; lines are not wrapped when piped."""
    return Console(highlight=False, soft_wrap=True)


def progress_console() -> Console:
    """Standard error, for progress, so that a pipe carries results only."""
    return _Progress(stderr=True, highlight=False, soft_wrap=True)


class _Progress(Console):
    """A console that ignores a closed pipe: the verb may still have to stop what it started."""

    def on_broken_pipe(self) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def progress(line: str) -> None:
    """Print one line of progress."""
    progress_console().print(line, markup=False)


def report(subject: str, what: str) -> None:
    """Print one line of progress about a server."""
    progress(f"{subject:<22} {what}")


def plain_table(*columns: str) -> Table:
    """A table without lines, for a terminal; a word too long for its column is folded, never cut."""
    table = Table(box=None, show_header=bool(columns), header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def print_json(verb: str, **answer: Any) -> None:
    """Print the result of a verb as one JSON object, with the version of the format."""
    assert "version" not in answer, "it would hide that of the format"
    print(json.dumps({"version": JSON_VERSION, "verb": verb, **answer}, indent=1, default=_plain), flush=True)


def print_failure(verb: str, failure: "Failure") -> None:
    """Print the failure of a verb as one JSON object."""
    print_json(verb, error=asdict(failure))


def fields(answer: "DataclassInstance") -> dict[str, Any]:
    """The fields of a result by name."""
    return {each.name: getattr(answer, each.name) for each in dataclasses.fields(answer)}


def print_rows(rows: Iterable[Iterable[str]]) -> None:
    """Print rows in columns on a terminal, and for a pipe separated by tabs; no value is cut."""
    console = result_console()
    if not console.is_terminal:
        for row in rows:
            print("\t".join(row))
        return
    table = plain_table()
    for row in rows:
        table.add_row(*map(Text, row))
    for column in table.columns:
        column.overflow = "fold"
    console.print(table)


def print_pages(pages: Mapping[str, str]) -> None:
    """Print web pages on lines of their own: folded in a column, an address is no link any more."""
    console, shown = result_console(), {name: page for name, page in pages.items() if page}
    if shown:
        console.print("\nweb pages", style="bold")
    for name, page in shown.items():
        console.print(f"{name:<{max(map(len, shown))}}  {page}", markup=False)


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def duration(seconds: float) -> str:
    """A time span in one or two units."""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 60:
        return f"{seconds:.0f} s"
    if hours < 1:
        return f"{minutes:.0f} min"
    return f"{hours:.0f} h {minutes % 60:.0f} min" if days < 1 else f"{days:.0f} d {hours % 24:.0f} h"
