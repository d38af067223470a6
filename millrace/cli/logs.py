"""millrace logs: the last lines of the servers' logs."""

import time
from pathlib import Path
from typing import Annotated

import typer

from millrace import stack
from millrace.cli.printing import Json, complete_servers, print_json, refuse_json, settings
from millrace.machine.processes import tail


def logs(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SERVER",
            help="A server (kafka-1), or a service for all of its servers (kafka). Default: all.",
            autocompletion=complete_servers,
        ),
    ] = None,
    lines: Annotated[
        int, typer.Option("--lines", "-n", metavar="COUNT", min=1, help="How many lines of each log.")
    ] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new lines until Ctrl-C.")] = False,
    json: Json = False,
) -> None:
    """Print the last lines of the servers' logs.

    Examples:
    millrace logs kafka
    millrace logs namenode --lines 200
    millrace logs flink --follow
    """
    if follow:
        refuse_json(json, "leave out --follow")
    found = stack.logs(settings(), names or [])
    if json:
        ends = {name: {str(log): tail(log, lines) for log in of_one} for name, of_one in found.items()}
        print_json("logs", logs=ends)
        return
    paths = [log for of_one in found.values() for log in of_one]
    for log in paths:
        if last := tail(log, lines):
            print(f"==> {log} <==", *last, sep="\n")
    if follow:
        _follow(paths)


def _follow(paths: list[Path]) -> None:
    seen = {log: log.stat().st_size if log.exists() else 0 for log in paths}
    while True:
        for log in paths:
            size = log.stat().st_size if log.exists() else 0
            start = seen[log] if size >= seen[log] else 0  # rotated or truncated
            if size > start:
                with log.open("rb") as file:
                    file.seek(start)
                    text = file.read().decode("utf-8", errors="replace")
                for line in text.splitlines():
                    print(f"{log.stem}: {line}", flush=True)
            seen[log] = size
        time.sleep(0.3)
