"""millrace observe: differences from what is declared."""

import os
from typing import Annotated

import typer

from millrace.cli.changes import known_pattern
from millrace.cli.printing import Json, fields, print_json, report, settings
from millrace.verbs import observation_server


def observe(
    patterns: Annotated[list[str] | None, typer.Argument(metavar="[PATTERN]...", help="Default: all.")] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Start a small web server that `terraform plan` reads.")
    ] = False,
    stop: Annotated[bool, typer.Option("--stop", help="Stop that web server.")] = False,
    json: Json = False,
) -> None:
    """Show what differs from what is declared: servers that do not run, sick jobs, changes that the verbs would make.

    Exit code 0 whatever differs: no output means no difference. For scripts there are `millrace status --check` and
    `millrace jobs`, which exit with 1.

    Examples:  millrace observe  |  millrace observe flink --json  |  millrace observe --serve
    """
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
        from millrace.target import Target
        from millrace.verbs.observe import observe as look

        found = look(Target.read(chosen), [known_pattern(name) for name in patterns or names()], os.environ)
        if json:
            print_json("observe", **fields(found))
        else:
            for line in [*found.servers.values(), *found.provision.values(), *found.deploy.values()]:
                print("\n".join(line), end="\n" if line else "")
