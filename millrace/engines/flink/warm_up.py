"""Starts a gateway that warms itself up: `python -m millrace.engines.flink.warm_up COMMAND` becomes the command.

The command reads the jobs of today's patterns from its standard input, one a line, as submissions to a cluster that
does not exist.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence

NOWHERE = "http://127.0.0.1:1"


def main(command: Sequence[str]) -> None:
    with tempfile.TemporaryFile() as jobs:
        try:
            jobs.write("".join(f"{line}\n" for line in submissions()).encode())
        except Exception as error:  # a stack starts with broken rules, too; `millrace deploy` names what is wrong
            print(f"no warm-up, the first submission takes longer: {error}", flush=True)
        jobs.seek(0)
        os.dup2(jobs.fileno(), sys.stdin.fileno())
    os.execvp(command[0], command)


def submissions() -> Iterator[str]:
    """The Flink job of each pattern; planning needs no server, and the cluster refuses the connection at once."""
    # Here, so that declarations that cannot be imported are caught above.
    from millrace.engines.flink.job import job_of
    from millrace.engines.flink.submission import remote
    from millrace.patterns import Stores, engine_plans, load_all

    for variant in load_all():
        for plan in engine_plans(variant, 1, "127.0.0.1:1", "file:///nowhere", Stores("", "", 0, "")):
            if plan.engine == "flink":
                settings = {**remote(plan, NOWHERE, None), "rest.retry.max-attempts": "0"}
                yield json.dumps(job_of(plan, settings))


if __name__ == "__main__":
    main(sys.argv[1:])
