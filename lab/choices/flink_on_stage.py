"""Measure Flink's per-event stage as one function, the kernel's Stage over keyed state, beside the plan of SQL.

`python -m lab.choices.flink_on_stage` takes the options of `lab.cost`, whose backlog and verdict these are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from lab import cost, handwritten
from lab.cost import DECLARED, Side, declared_on_flink, submitted_to_flink
from millrace.engines.flink.libraries import compiled_against
from millrace.engines.flink.tuning import IDLE_SOURCE_MS, SINK_OPTIONS
from millrace.machine import jars
from millrace.patterns import EnginePlan, kafka_job
from millrace.settings import Settings
from millrace.target import Target

ON_STAGE = "on Stage"
MAIN = "millrace.flink.arrivals.OnStage"
JAVA = Path(__file__).parent / "flink"
PRODUCER = {name.removeprefix("properties."): value for name, value in SINK_OPTIONS.items() if "properties" in name}


def on_stage(target: Target, plan: EnginePlan) -> Side:
    """With the settings of the declared job."""
    settings, name = target.settings, f"{plan.pattern} (generation {plan.generation})"
    declared = kafka_job.declaration(plan, settings.state / "data" / plan.pattern, name, IDLE_SOURCE_MS, PRODUCER)
    job = settings.state / f"{plan.pattern}.json"
    job.write_text(json.dumps(declared | {"settings": PRODUCER}), encoding="utf-8")
    return submitted_to_flink(target, plan, MAIN, ensure(settings), job, clients(settings))


def clients(settings: Settings) -> list[Path]:
    """Kafka's own clients, which Flink does not have under their own names."""
    return sorted(jars.folder(settings, "streams").glob("kafka-clients-*.jar"))


def ensure(settings: Settings) -> Path:
    """The jar of the program.

    It has the product's classes as well, and its own in place of some: a class reaches others of its package only where
    one loader has loaded both.
    """
    package, own = settings.package, [*compiled_against(settings), *clients(settings)]
    parts = ["kernel/java", "kernel/stage/java", "kernel/kafka/java", "engines/flink/java"]
    roots = [*(package / each for each in parts), JAVA]
    return handwritten.built(settings, "flink-on-stage", [(root, own) for root in roots])


STARTS = {("flink", DECLARED): declared_on_flink, ("flink", ON_STAGE): on_stage}


def main(argv: Sequence[str]) -> int:
    return cost.main(argv, STARTS, "cost-flink-on-stage")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
