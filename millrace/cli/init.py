"""millrace init: a use to begin with."""

import os
from pathlib import Path
from typing import Annotated

import typer

from millrace.cli.printing import Json, print_json, print_rows, report


def init(
    name: Annotated[str, typer.Argument(metavar="USE", help="Name of the use and of its first pattern: my-use.")],
    json: Json = False,
) -> None:
    """Write a small use that runs: one event, one rule, a pattern, traffic, a scenario and a test.

    The project is MILLRACE_PROJECT, else the nearest folder upwards with pipelines/, else this folder. A new project
    also gets DAG files, a Terraform root, rules for Prometheus with a runbook, a dashboard for Grafana, a README.
    No file is overwritten.

    Examples:
    millrace init my-use
    millrace init my-use --json
    """
    from millrace import project
    from millrace.verbs import init as beginning

    os.umask(0o022)  # sources are for others to read, unlike the files of a stack
    folder = project.nearest() or Path.cwd()
    changes = beginning.init(folder, name)
    if json:
        print_json("init", use=name, project=folder, changes=changes)
        return
    print_rows((change.action, change.name) for change in changes)
    report(str(folder), f"has the use {name}; next: millrace demo {name}")
