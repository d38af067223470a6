"""Measure Spark's per-event stage with its memory in Python, beside the product's in Java: both in the same query.

`python -m lab.choices.spark_in_python` takes the options of `lab.cost`, whose backlog and verdict these are. With
`buckets` as its first argument, the processor in Python takes many keys at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from lab import cost
from lab.cost import DECLARED, Side, Starts, declared_on_spark
from millrace.machine import processes
from millrace.patterns import EnginePlan
from millrace.settings import PROJECT
from millrace.target import Target

IN_PYTHON, IN_BUCKETS = "in Python", "in Python by bucket"
DRIVER = "millrace.engines.spark.job"
DRIVERS = {IN_PYTHON: "lab.choices.spark.job", IN_BUCKETS: "lab.choices.spark.job_in_buckets"}


@contextmanager
def memory(side: str) -> Iterator[None]:
    """Drivers that are started meanwhile have the memory of a side."""
    start = processes.start

    def started(
        name: str, command: Sequence[str], env: Mapping[str, str], log: Path, run_dir: Path, **more: Any
    ) -> processes.ProcessRecord:
        words = [DRIVERS[side] if word == DRIVER else word for word in command]
        path = os.pathsep.join([env.get("PYTHONPATH", ""), str(PROJECT)])
        return start(name, words, {**env, "PYTHONPATH": path}, log, run_dir, **more)

    with patch.object(processes, "start", started):
        yield


def in_python(target: Target, plan: EnginePlan, side: str = IN_PYTHON) -> Side:
    with memory(side):
        return declared_on_spark(target, plan)


BY_KEY: Starts = {("spark", DECLARED): declared_on_spark, ("spark", IN_PYTHON): in_python}
BY_BUCKET: Starts = {
    ("spark", DECLARED): declared_on_spark,
    ("spark", IN_BUCKETS): lambda target, plan: in_python(target, plan, IN_BUCKETS),
}


def main(argv: Sequence[str]) -> int:
    if argv[:1] == ["buckets"]:
        return cost.main(argv[1:], BY_BUCKET, "cost-spark-in-buckets")
    return cost.main(argv, BY_KEY, "cost-spark-in-python")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
