"""How verbs print: for people on a terminal, plain when piped, JSON when asked."""

import dataclasses
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from millrace.settings import JSON_VERSION, Settings
from millrace.stack import profiles_of
from millrace.stack.services import services

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from millrace.cli.failures import Failure

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def complete_services(incomplete: str) -> list[str]:
    """The services that a half-typed word may become."""
    return [name for name in services(settings()) if name.startswith(incomplete)]


def complete_servers(incomplete: str) -> list[str]:
    """The servers and services that a half-typed word may become."""
    known = services(settings(), profiles_of(settings()))
    servers = (server.name for service in known.values() for server in service.servers)
    return [name for name in (*known, *servers) if name.startswith(incomplete)]


def settings() -> Settings:
    return Settings.read(os.environ)


def result_console() -> Console:
    """For what was asked for: standard output, as wide as need be when piped."""
    return Console(highlight=False, soft_wrap=True)


def progress_console() -> Console:
    """For what happens meanwhile: standard error, so that a pipe carries results only."""
    return _Progress(stderr=True, highlight=False, soft_wrap=True)


class _Progress(Console):
    """Lines that may be lost: a closed pipe does not end the verb, which may be stopping what it started."""

    def on_broken_pipe(self) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def report(subject: str, what: str) -> None:
    """One line for what happened to a server."""
    progress_console().print(f"{subject:<22} {what}", markup=False)


def print_json(verb: str, **answer: Any) -> None:
    """The answer of a verb: one object, with the version of its form."""
    print(json.dumps({"version": JSON_VERSION, "verb": verb, **answer}, indent=1, default=_plain), flush=True)


def print_failure(failure: "Failure") -> None:
    """What a program reads instead of an answer."""
    print(json.dumps({"version": JSON_VERSION, "error": asdict(failure)}, indent=1), flush=True)


def fields(answer: "DataclassInstance") -> dict[str, Any]:
    """The fields of an answer, each by its name."""
    return {each.name: getattr(answer, each.name) for each in dataclasses.fields(answer)}


def print_rows(rows: Iterable[Iterable[str]]) -> None:
    """Columns for a pipe: tabs between, nothing cut."""
    for row in rows:
        print("\t".join(row))


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def duration(seconds: float) -> str:
    """A time span as people say it."""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 60:
        return f"{seconds:.0f} s"
    if hours < 1:
        return f"{minutes:.0f} min"
    return f"{hours:.0f} h {minutes % 60:.0f} min" if days < 1 else f"{days:.0f} d {hours % 24:.0f} h"
