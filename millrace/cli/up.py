"""millrace up: start the stack."""

import os
from dataclasses import replace
from typing import Annotated

import typer

from millrace import stack
from millrace.cli.changes import complete_patterns
from millrace.cli.printing import Json, complete_services, print_json, progress_console, report, settings
from millrace.cli.status import print_table, print_watch
from millrace.machine.jars.bars import bars
from millrace.settings import PORT_BASE_DEFAULT, PORTS_PER_STACK
from millrace.settings import port_base as checked
from millrace.stack.services import DEFAULT, PAGE, PROFILES, needed


def up(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SERVICE",
            autocompletion=complete_services,
            help=f"A service to start, with the services that it needs; airflow is one. Default: {' '.join(DEFAULT)}.",
        ),
    ] = None,
    pattern: Annotated[
        str,
        typer.Option(
            "--for", metavar="PATTERN", autocompletion=complete_patterns, help="Start what this pattern needs."
        ),
    ] = "",
    profile: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PROFILE",
            help=f"A variant of the stack: {', '.join(PROFILES)}, or none. Can be repeated. Default: as before.",
        ),
    ] = None,
    port_base: Annotated[
        str | None,
        typer.Option(
            metavar="PORT",
            help=f"First of {PORTS_PER_STACK} ports for the servers. Default: as before, at first {PORT_BASE_DEFAULT}.",
        ),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch/--no-watch",
            help="Start the watcher. --no-watch does not stop a running one; `millrace watch --stop` does.",
        ),
    ] = True,
    json: Json = False,
) -> None:
    """Start the servers of the stack, and wait until each is ready.

    `up` is idempotent: it starts only servers that are missing or dead. A watcher then restarts servers and jobs that
    die, until `down`; `millrace watch --journal` shows the restarts.

    Profiles: three-brokers starts three Kafka brokers instead of one, with data of their own: refused until patterns
    with data in the other are torn down with `--data`. durable adds HBase's log on HDFS, so that the loss of any one
    server loses no data. spark-cluster starts a Spark master and a worker. prometheus has Flink and Spark's drivers
    serve their own figures for it. airflow-postgres gives Airflow PostgreSQL instead of SQLite. The file of a
    MILLRACE_TARGET can set profiles, too.

    Examples:
    millrace up
    millrace up kafka hbase
    millrace up --for spark
    millrace up --profile durable --port-base 21000
    MILLRACE_TARGET=durable millrace up
    """
    from millrace.target import Given

    chosen, wanted = settings(), names or []
    if pattern:
        from millrace.patterns import load

        wanted += [*needed((variant := load(pattern)).engines, variant.stores), PAGE]
    if port_base:
        chosen = replace(chosen, port_base=checked(port_base, "--port-base"))
    profiles = Given.read(os.environ).profiles if profile is None else [name for name in profile if name != "none"]
    with bars(progress_console()) as progress:
        stack.up(chosen, wanted, profiles, report, progress)
    if watch:
        from millrace.verbs import watch as watching

        watching.ensure(chosen)
    statuses, watching_ = stack.status(chosen), stack.watch_status(chosen)
    if json:
        print_json("up", servers=statuses, watch=watching_)
    else:
        print_table(statuses)
        print_watch(watching_)
