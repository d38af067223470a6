"""All verbs.

Each call imports all of them, even for `--help` or completion. So each imports its libraries inside its function: the
clients of the servers take longer to import than `millrace status` takes to run.
"""

from collections.abc import Sequence
from typing import Annotated

import typer
from typer.main import get_command

from millrace.cli.await_ import await_
from millrace.cli.command import Command
from millrace.cli.compact import compact
from millrace.cli.compare import compare
from millrace.cli.customer import customer
from millrace.cli.dead_letters import dead_letters
from millrace.cli.declare import declare
from millrace.cli.demo import demo
from millrace.cli.deploy import deploy
from millrace.cli.doctor import doctor
from millrace.cli.down import down
from millrace.cli.env import env
from millrace.cli.jobs import jobs
from millrace.cli.kill import kill
from millrace.cli.logs import logs
from millrace.cli.observe import observe
from millrace.cli.patterns import patterns
from millrace.cli.provision import provision
from millrace.cli.reconcile import reconcile
from millrace.cli.restart import restart
from millrace.cli.roll_back import roll_back
from millrace.cli.setup import setup
from millrace.cli.status import status
from millrace.cli.teardown import teardown
from millrace.cli.topics import topics
from millrace.cli.traffic import traffic
from millrace.cli.up import up
from millrace.cli.upgrade import upgrade
from millrace.cli.validate import validate
from millrace.cli.version import print_version
from millrace.cli.watch import watch

# A verb is a file beside this one and a name in this list.
VERBS = (
    *(doctor, setup, up, down, watch, status, logs, restart, kill, env, observe),
    *(patterns, provision, deploy, await_, reconcile, upgrade, roll_back, traffic, validate, jobs, teardown),
    *(compare, compact, customer, declare, demo),
)
GROUPS = {"topics": topics, "dead-letters": dead_letters}

app = typer.Typer(
    name="millrace",
    help="Run, deploy, prove and measure streaming patterns on real servers on this machine.",
    epilog="Exit codes: 0 done, 1 failed, 2 usage error, 3 a --plan in which something would change, 130 interrupted. "
    "Environment: MILLRACE_PROJECT is the folder with pipelines/ (default: here or above), MILLRACE_STATE the folder "
    "of the stack, MILLRACE_PORT_BASE its first port, MILLRACE_HOME the "
    "folder of downloads, MILLRACE_PATTERNS the folder of pattern files; NO_COLOR turns colours off.",
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


for verb in VERBS:
    app.command(verb.__name__.rstrip("_").replace("_", "-"), cls=Command)(verb)
for name, group in GROUPS.items():
    app.add_typer(group, name=name)


def run(words: Sequence[str]) -> int:
    """Run a verb and return its exit code; errors are raised, where Typer would print them."""
    command = get_command(app)
    try:
        with command.make_context("millrace", list(words)) as context:
            command.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    return 0
