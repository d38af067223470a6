"""Starts a gateway that warms itself up: `python -m millrace.engines.flink.warm_up COMMAND` becomes the command.

The command reads a job from its standard input, as a submission to a cluster that does not exist. Planning one loads
and compiles nearly all that the others need.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence

NOWHERE = "http://127.0.0.1:1"


def main(command: Sequence[str]) -> None:
    with tempfile.TemporaryFile() as job:
        try:
            job.write(submission().encode())
        except Exception as error:  # a stack starts with broken rules, too; `millrace deploy` names what is wrong
            print(f"no warm-up, the first submission takes longer: {error}", flush=True)
        job.seek(0)
        os.dup2(job.fileno(), sys.stdin.fileno())
    os.execvp(command[0], command)


def submission() -> str:
    """The first Flink job of the patterns; planning needs no server, and the cluster refuses the connection at once."""
    # Here, so that declarations that cannot be imported are caught above.
    from millrace.engines.flink.job import job_of
    from millrace.engines.flink.submission import remote
    from millrace.patterns import Stores, engine_plans, load_all

    for variant in load_all():
        for plan in engine_plans(variant, 1, "127.0.0.1:1", "file:///nowhere", Stores("", "", 0, "")):
            if plan.engine == "flink":
                settings = {**remote(plan, NOWHERE, None), "rest.retry.max-attempts": "0"}
                return json.dumps(job_of(plan, settings))
    return ""


if __name__ == "__main__":
    main(sys.argv[1:])
