"""millrace up: start the stack."""

import os
from dataclasses import replace
from typing import Annotated

import typer

from millrace import stack
from millrace.cli.printing import Json, complete_services, print_json, progress_console, report, settings
from millrace.cli.status import print_table, print_watch
from millrace.machine.jars.bars import bars
from millrace.settings import port_base as checked
from millrace.stack.services import DEFAULT, PROFILES


def up(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SERVICE]...",
            autocompletion=complete_services,
            help=f"Default: {' '.join(DEFAULT)}.",
        ),
    ] = None,
    profile: Annotated[
        list[str] | None,
        typer.Option(help=f"A form of the stack, kept until another is given: {', '.join(PROFILES)}, or none."),
    ] = None,
    port_base: Annotated[
        str | None, typer.Option(help="First of the stack's hundred ports; kept for the verbs that follow.")
    ] = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch/--no-watch",
            help="Start the watcher, which restarts what dies. --no-watch stops no running watcher.",
        ),
    ] = True,
    json: Json = False,
) -> None:
    """Start the stack, or some services and what they need, and wait until each answers.

    It is idempotent: it starts what is missing or dead and adopts what runs. A watcher restarts servers and jobs that
    die, until `down`; `millrace watch --journal` shows what it did.

    Without --profile a stack keeps its form, unless MILLRACE_TARGET names a target that gives it one.

    Examples:  millrace up  |  millrace up kafka hbase  |  millrace up --profile durable --port-base 21000
               MILLRACE_TARGET=durable millrace up
    """
    from millrace.target import Given

    chosen = settings()
    if port_base:
        chosen = replace(chosen, port_base=checked(port_base))
    profiles = Given.read(os.environ).profiles if profile is None else [name for name in profile if name != "none"]
    with bars(progress_console()) as progress:
        stack.up(chosen, names or [], profiles, report, progress)
    if watch:
        from millrace.verbs import watch as watching

        watching.ensure(chosen)
    statuses, watching_ = stack.status(chosen), stack.watch_status(chosen)
    if json:
        print_json("up", servers=statuses, watch=watching_)
    else:
        print_table(statuses)
        print_watch(watching_)
