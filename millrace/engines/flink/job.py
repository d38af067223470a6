"""`python -m millrace.engines.flink.job --plan JSON --rest URL [--from STATE]`: submits a plan to a session cluster.

With `--gateway SOCKET` a warm gateway plans and submits it, else a new JVM. Without `--rest` it is the job that Flink
itself runs as an application, as its Kubernetes operator does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millrace.engines.flink import events, topics, windows
from millrace.engines.flink.dead_letters import dead_letters
from millrace.engines.flink.expressions import quoted
from millrace.engines.flink.submission import remote, run, settings_of, submit
from millrace.engines.flink.topics import ARRIVALS, REFERENCES
from millrace.patterns import EnginePlan
from millrace.patterns.plan import WINDOWS_TOPIC
from millrace.rules import ALERTS, DEAD_LETTERS

FUNCTIONS = {
    "remember": "millrace.flink.Remember",
    "fold": "millrace.flink.Fold",
    "look_up": "millrace.flink.LookUp",
    "compute": "millrace.flink.Compute",
    "km": "millrace.flink.Km",
    "millis": "millrace.flink.Millis",
    "first_ids": "millrace.flink.FirstIds",
    "base64": "millrace.flink.Base64",
}


def main(argv: Sequence[str]) -> None:
    arguments = _arguments(argv)
    plan = EnginePlan.read(arguments.plan)
    if arguments.rest:
        submit(job_of(plan, remote(plan, arguments.rest, arguments.state)), arguments.gateway)
    else:
        run(job_of(plan, {}), settings_of(plan))


def job_of(plan: EnginePlan, settings: Mapping[str, str]) -> dict[str, Any]:
    """The whole job as millrace.flink.submission.Submission reads it."""
    sql = script(plan)
    return {
        "name": f"{plan.pattern} (generation {plan.generation})",
        "settings": settings,
        "definitions": sql.definitions,
        "views": list(sql.views.items()),
        "inserts": sql.inserts,
    }


@dataclass(frozen=True)
class Script:
    """A job as Flink SQL: definitions and views one by one, then the inserts all together.

    Views are queries, not statements: CREATE VIEW cannot express a call with PARTITION BY.
    """

    definitions: tuple[str, ...]
    views: Mapping[str, str]
    inserts: tuple[str, ...]


def script(plan: EnginePlan) -> Script:
    """The plan as Flink SQL."""
    return Script(
        definitions=(*_functions(), *_tables(plan)),
        views=dict([*events.views(plan), *windows.views(plan)]),
        inserts=tuple(_inserts(plan)),
    )


def _functions() -> Iterator[str]:
    for name, implementation in FUNCTIONS.items():
        yield f"CREATE TEMPORARY SYSTEM FUNCTION {name} AS '{implementation}'"


def _tables(plan: EnginePlan) -> Iterator[str]:
    yield topics.arrivals(ARRIVALS, plan)
    if plan.use.references:
        yield topics.references(REFERENCES, plan)
    enriched = plan.use.enriched
    yield topics.sink(enriched.name, enriched, plan.topics[enriched.name], plan.bootstrap, [events.HEADERS])
    for written in (ALERTS, DEAD_LETTERS):
        yield topics.sink(written.name, written, plan.topics[written.name], plan.bootstrap)
    for summary in plan.window_summaries:
        table, columns = windows.table_of(summary), windows.columns_of(summary)
        key = (*summary.keys, windows.SUMMARY)[0]
        yield topics.sink_of(table, columns, key, plan.topics[WINDOWS_TOPIC], plan.bootstrap)


def _inserts(plan: EnginePlan) -> Iterator[str]:
    stage, folds = events.event_stage(plan), plan.fold_rules
    yield _insert(plan.use.enriched.name, [events.enriched(stage, folds)])
    if found := [*events.alerts(stage, folds), *map(windows.alerts, plan.window_rules)]:
        yield _insert(ALERTS.name, found)
    yield _insert(DEAD_LETTERS.name, list(dead_letters(plan)))
    for summary in plan.window_summaries:
        yield _insert(windows.table_of(summary), [windows.numbers(summary)])


def _insert(table: str, queries: Sequence[str]) -> str:
    return f"INSERT INTO {quoted(table)} {' UNION ALL '.join(queries)}"


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m millrace.engines.flink.job", description=__doc__)
    parser.add_argument("--plan", required=True, help="the engine's plan as JSON, or @FILE")
    parser.add_argument("--rest", help="the session cluster's REST address, http://host:port")
    parser.add_argument("--from", dest="state", help="a savepoint or retained checkpoint to continue from")
    parser.add_argument("--gateway", type=Path, help="the socket of a warm gateway beside the cluster")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main(sys.argv[1:])
