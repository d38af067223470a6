"""All verbs.

Each call imports all of them, even for `--help` or completion. So each imports its libraries inside its function: the
clients of the servers take longer to import than `millrace status` takes to run.
"""

import os
from collections.abc import Sequence
from itertools import chain
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException
from typer.main import get_command

from millrace import registry
from millrace.cli.alerts import alerts
from millrace.cli.await_ import await_
from millrace.cli.backfill import backfill
from millrace.cli.canaries import canaries
from millrace.cli.command import Command, Group
from millrace.cli.compact import compact
from millrace.cli.compare import compare
from millrace.cli.dashboard import dashboard
from millrace.cli.dead_letters import dead_letters
from millrace.cli.declare import declare
from millrace.cli.demo import demo
from millrace.cli.deploy import deploy
from millrace.cli.doctor import doctor
from millrace.cli.down import down
from millrace.cli.env import env
from millrace.cli.explain import explain
from millrace.cli.forget import forget
from millrace.cli.init import init
from millrace.cli.jobs import jobs
from millrace.cli.kill import kill
from millrace.cli.logs import logs
from millrace.cli.mark import mark
from millrace.cli.mixture import Mixture, Sizes
from millrace.cli.observe import observe
from millrace.cli.patterns import patterns
from millrace.cli.provision import provision
from millrace.cli.reconcile import reconcile
from millrace.cli.replay import replay
from millrace.cli.restart import restart
from millrace.cli.roll_back import roll_back
from millrace.cli.service import service
from millrace.cli.setup import setup
from millrace.cli.show import names, show, verb
from millrace.cli.status import status
from millrace.cli.teardown import teardown
from millrace.cli.topics import topics
from millrace.cli.traffic import traffic
from millrace.cli.up import up
from millrace.cli.upgrade import upgrade
from millrace.cli.validate import validate
from millrace.cli.verdicts import verdicts
from millrace.cli.verify import verify
from millrace.cli.version import print_version
from millrace.cli.watch import watch

# A verb is a file beside this one and a name in this table, under its title in `millrace --help`.
PANELS = {
    "Start here": (demo, init, doctor, setup),
    "Servers of the stack": (up, down, status, dashboard, watch, logs, restart, kill, env),
    "Patterns and their jobs": (
        *(patterns, provision, deploy, await_, jobs, upgrade, roll_back, reconcile, observe, declare, teardown),
    ),
    "Events and results": (
        traffic,
        canaries,
        alerts,
        explain,
        mark,
        backfill,
        validate,
        verdicts,
        verify,
        replay,
        compare,
        show,
        forget,
        compact,
    ),
}
VERBS = tuple(chain.from_iterable(PANELS.values()))
GROUPS = {"topics": topics, "dead-letters": dead_letters, "service": service}  # in the last panel

EPILOG = """Exit codes: 0 done, 1 failed, 2 usage error, 3 --plan has changes, 130 Ctrl-C

Environment:
  MILLRACE_PROJECT    folder with pipelines/; default: the nearest one upwards
  MILLRACE_HOME       folder of downloads; default: ~/.cache/millrace
  MILLRACE_STATE      folder of the stack's files; default: .millrace
  MILLRACE_PORT_BASE  first port of the stack; default: 20000
  MILLRACE_PATTERNS   folder of pattern files; default: pipelines/*/patterns
  MILLRACE_TARGET     other servers: a file of addresses, or a name in infra/
  NO_COLOR            set it to turn colours off"""


class Verbs(Group):
    """Our verbs, and those by which uses show one of their keys."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(dict.fromkeys([*super().list_commands(ctx), *names()]))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if (own := super().get_command(ctx, cmd_name)) is not None or (found := verb(cmd_name)) is None:
            return own
        shown = typer.Typer(rich_markup_mode="rich", add_completion=False)
        shown.command(cmd_name, cls=Command, rich_help_panel=panel)(found)
        return get_command(shown)


app = typer.Typer(
    name="millrace",
    cls=Verbs,
    help=f"""Run streaming rules on an engine ({", ".join(registry.names())}), and check every alert with an oracle.

    A pattern is a YAML file that names the stages of a pipeline, and the rules and the engine of each. A stack is the
    servers that patterns run on, all on this machine. The oracle evaluates the same rules in Python.""",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def millrace(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", help="Print the version and exit.", is_eager=True, callback=print_version),
    ] = False,
) -> None: ...


for panel, verbs in PANELS.items():
    for each in verbs:
        app.command(
            each.__name__.rstrip("_").replace("_", "-"),
            cls={traffic: Mixture, backfill: Sizes}.get(each, Command),
            rich_help_panel=panel,
        )(each)
for name, group in GROUPS.items():
    app.add_typer(group, name=name, rich_help_panel=panel)


def run(words: Sequence[str]) -> int:
    """Run a verb and return its exit code; errors are raised, where Typer would print them in a box."""
    command = get_command(app)
    if os.environ.get("_MILLRACE_COMPLETE"):  # a shell completes a line
        command.main(words, "millrace")
    try:
        with command.make_context("millrace", list(words)) as context:
            command.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    except TyperException as error:
        if error.format_message():
            raise
        return error.exit_code  # without arguments: the help is printed
    return 0


def verb_of(words: Sequence[str]) -> str:
    """The verb that the words name, of a group with its name: `topics list`; empty if they name none."""
    command: Any = get_command(app)
    named = []
    for word in words:
        if isinstance(command, Group) and (found := command.get_command(typer.Context(command), word)):
            command = found
            named.append(word)
    return " ".join(named)
