"""millrace observe: differences from what is declared."""

import os
from typing import Annotated

import typer

from millrace.cli.changes import known_pattern
from millrace.cli.printing import Json, fields, print_json, report, settings


def observe(
    patterns: Annotated[
        list[str] | None, typer.Argument(metavar="PATTERN", help="Names of patterns. Default: all.")
    ] = None,
    service: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A service that ought to run; may be repeated. Default: the default stack."),
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Start the observer, a small web server that `terraform plan` queries.")
    ] = False,
    stop: Annotated[bool, typer.Option("--stop", help="Stop the observer.")] = False,
    json: Json = False,
) -> None:
    """Show the differences between what is declared and what runs.

    Differences are servers that do not run, sick jobs, and changes that `provision` and `deploy` would make. No output
    means no difference. The exit code is 0 in both cases; scripts can use the exit codes of `millrace status --check`,
    `millrace jobs PATTERN` and `millrace deploy PATTERN --plan`.

    Examples:
    millrace observe
    millrace observe flink --json
    millrace observe streams --service kafka --service hdfs
    millrace observe --serve
    """
    from millrace.verbs import observation_server

    chosen = settings()
    if stop:
        report("observer", "stopped" if observation_server.stop(chosen) else "did not run")
        if json:
            print_json("observe", address=None)
    elif serve:
        observation_server.ensure(chosen)
        report("observer", f"answers on port {chosen.port(observation_server.NAME)}")
        if json:
            print_json("observe", address=f"http://127.0.0.1:{chosen.port(observation_server.NAME)}")
    else:
        from millrace.patterns import names
        from millrace.stack.services import DEFAULT
        from millrace.target import Target
        from millrace.verbs.observe import observe as look

        wanted = [known_pattern(name) for name in patterns or names()]
        found = look(Target.read(chosen), wanted, service or DEFAULT, os.environ)
        if json:
            print_json("observe", **fields(found))
        else:
            for line in [*found.servers.values(), *found.provision.values(), *found.deploy.values()]:
                print("\n".join(line), end="\n" if line else "")
