"""millrace status: how every server is."""

import time
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from infra import stack
from infra.cli.printing import Json, duration, print_json, print_rows, result_console, settings
from infra.stack import ServerStatus

COLOURS = {"running": "green", "starting": "yellow", "unready": "red", "dead": "red", "stopped": "dim"}
COLUMNS = ("server", "state", "address", "web page", "pid", "memory", "since", "last error")


def status(
    json: Json = False,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 unless all shown servers run.")] = False,
) -> None:
    """Show every server: state, address, web page, pid, memory, since when, and the last error if it died.

    States: running (it answers), starting, unready (runs, does not answer), dead (nobody stopped it), stopped.

    Examples:  millrace status  |  millrace status --json  |  millrace status --check && echo all well
    """
    statuses = stack.status(settings())
    if json:
        print_json("status", servers=statuses)
    else:
        print_table(statuses)
    if check and any(one.state != "running" for one in statuses):
        raise typer.Exit(1)


def print_table(statuses: Sequence[ServerStatus]) -> None:
    console = result_console()
    if not console.is_terminal:
        print_rows([COLUMNS, *map(row, statuses)])
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in COLUMNS:
        table.add_column(column, overflow="fold")  # an address that is cut is of no use
    for one in statuses:
        name, state, *rest = row(one)
        table.add_row(name, f"[{COLOURS[one.state]}]{state}[/]", *rest)
    console.print(table)
    total = sum(one.memory_bytes or 0 for one in statuses)
    console.print(f"{sum(one.state == 'running' for one in statuses)} running, {total / 2**20:.0f} MiB", style="dim")


def row(one: ServerStatus) -> tuple[str, ...]:
    return (
        one.name,
        one.state,
        one.address,
        one.web,
        str(one.pid or ""),
        f"{one.memory_bytes / 2**20:.0f} MiB" if one.memory_bytes else "",
        duration(time.time() - one.since) if one.since else "",
        one.error,
    )
