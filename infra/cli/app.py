"""All verbs together.

All are imported to answer any of them, `--help` or a Tab. So each imports inside itself what it works with: the clients
of the servers take longer to import than `millrace status` takes in all.
"""

from collections.abc import Sequence
from typing import Annotated

import typer
from typer.main import get_command

from infra.cli.await_ import await_
from infra.cli.command import Command
from infra.cli.compact import compact
from infra.cli.compare import compare
from infra.cli.customer import customer
from infra.cli.dead_letters import dead_letters
from infra.cli.demo import demo
from infra.cli.deploy import deploy
from infra.cli.doctor import doctor
from infra.cli.down import down
from infra.cli.env import env
from infra.cli.jobs import jobs
from infra.cli.kill import kill
from infra.cli.logs import logs
from infra.cli.observe import observe
from infra.cli.patterns import patterns
from infra.cli.provision import provision
from infra.cli.reconcile import reconcile
from infra.cli.restart import restart
from infra.cli.roll_back import roll_back
from infra.cli.status import status
from infra.cli.teardown import teardown
from infra.cli.topics import topics
from infra.cli.traffic import traffic
from infra.cli.up import up
from infra.cli.upgrade import upgrade
from infra.cli.validate import validate
from infra.cli.version import print_version
from infra.cli.watch import watch

# A verb is a file beside this one and a name in this list.
VERBS = (
    *(doctor, up, down, watch, status, logs, restart, kill, env, observe),
    *(patterns, provision, deploy, await_, reconcile, upgrade, roll_back, traffic, validate, jobs, teardown),
    *(compare, compact, customer, demo),
)
GROUPS = {"topics": topics, "dead-letters": dead_letters}

app = typer.Typer(
    name="millrace",
    help="Run, deploy, prove and measure streaming patterns on real servers of this machine.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a --plan in which something would change, 130 interrupted. "
    "MILLRACE_STATE chooses the stack's folder, MILLRACE_PORT_BASE its ports, MILLRACE_HOME the shared downloads, "
    "MILLRACE_PATTERNS the folder of the pattern files; "
    "NO_COLOR turns colours off.",
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
    """Run a verb and return its exit code; its errors are the caller's, which Typer itself would print."""
    command = get_command(app)
    try:
        with command.make_context("millrace", list(words)) as context:
            command.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    return 0
