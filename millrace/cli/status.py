"""millrace status: the state of every server."""

import time
from collections.abc import Sequence
from typing import Annotated

import typer

from millrace import stack
from millrace.cli.printing import (
    Json,
    duration,
    plain_table,
    print_json,
    print_pages,
    print_rows,
    result_console,
    settings,
)
from millrace.errors import InfraError
from millrace.settings import Settings
from millrace.stack import ServerStatus, WatchStatus

COLOURS = {
    "running": "green",
    "starting": "yellow",
    "unready": "red",
    "dead": "red",
    "given-up": "red",
    "stopped": "dim",
}
DOES_NOT_RUN = "it was deployed and does not run; `millrace reconcile` starts it again"
COLUMNS = ("server", "state", "address", "web page", "pid", "memory", "since", "last error")


def status(
    json: Json = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Exit code 1 if a server or a job is down, a job is sick, or the watcher died."),
    ] = False,
) -> None:
    """Show each server: state, address, web page, pid, memory, uptime, last error.

    The states are running (the server answers), starting, unready (it runs, but does not answer), dead (it ended
    without `down`), given-up (dead, and the watcher no longer restarts it), and stopped. Below the table are the
    watcher, sick jobs, and deployed jobs that do not run.

    Examples:
    millrace status
    millrace status --check && echo all well
    """
    chosen = settings()
    statuses, watch, sick = stack.status(chosen), stack.watch_status(chosen), _unwell(chosen)
    if json:
        print_json("status", servers=statuses, watch=watch, sick=sick)
    else:
        print_table(statuses)
        print_watch(watch)
        for name, problem in sick.items():
            result_console().print(f"{name}: {problem}", style="red", markup=False)
    if check and (sick or not watch.is_well or any(one.state != "running" for one in statuses)):
        raise typer.Exit(1)


def _unwell(chosen: Settings) -> dict[str, str]:
    """Job -> its state and problem, for each job that was deployed and is sick or does not run."""
    if not any((chosen.state / "patterns").glob("*.wanted")):
        return {}  # the clients of the engines take longer to import than everything else here
    from millrace import deployments
    from millrace.target import Target

    try:
        found = deployments.unwell(Target.read(chosen))
        return {name: f"{job.state}: {job.problem or DOES_NOT_RUN}" for name, job in found.items()}
    except InfraError as error:
        return {"jobs": f"unknown: {error}"}


def print_watch(watch: WatchStatus) -> None:
    """Print a line for the watcher, and one for what it has given up."""
    state = f"{watch.state} (pid {watch.pid})" if watch.pid else watch.state
    remedy = "" if watch.pid else "; nothing restarts what dies until the next `millrace up`"
    style = "red" if watch.state == "dead" else "dim"
    result_console().print(f"watcher: {state}{remedy}", style=style, markup=False)
    if watch.given_up:
        named = ", ".join(watch.given_up)
        what = f"given up: {named}; fix the cause, then `millrace up` for servers, `millrace deploy PATTERN` for jobs"
        result_console().print(what, style="red", markup=False)


def print_table(statuses: Sequence[ServerStatus]) -> None:
    console = result_console()
    if not console.is_terminal:
        print_rows([COLUMNS, *map(row, statuses)])
        return
    table = plain_table("server", "state", "address", "pid", "memory", "uptime")
    for column in table.columns:
        column.no_wrap = column.header != "address"  # one of them is the path of a socket
    for one in statuses:
        name, state, address, _, pid, memory, since, _ = row(one)
        table.add_row(name, f"[{COLOURS[one.state]}]{state}[/]", address, pid, memory, since)
    console.print(table)
    print_pages({one.name: one.web for one in statuses})
    for one in statuses:
        if one.error:
            console.print(f"{one.name}: {one.error}", style="red", markup=False)
    console.print()
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
