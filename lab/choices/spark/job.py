"""The product's driver, but for the memory of the per-event stage, which is in Python."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame

from lab.choices.spark.remember import remembered
from millrace.engines.spark import events, job, session

# It warns of each key that has no state yet.
STATE_SERVER = "org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkStateServer"


def main(argv: Sequence[str], step: Callable[..., DataFrame] = remembered) -> int:
    events.remembered = step
    session.QUIET = (*session.QUIET, STATE_SERVER)
    return job.main(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
