"""A use with a rule in plain Python; `python -m tests.flink.fold_job` submits it like millrace.engines.flink.job."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from millrace import project
from millrace.rules import FoldRule
from pipelines.fraud import FRAUD
from pipelines.fraud.events import device_locations, transactions


def step(state: Any, event: Mapping[str, Any], stream: str) -> tuple[Any, Mapping[str, Any] | None]:
    """Counts purchases of the same amount at the same merchant in a row, and the phone's reports."""
    state = state or {"last": None, "times": 0, "reports": 0}
    if stream == device_locations.name:
        return {**state, "reports": state["reports"] + 1}, None
    now = [event["merchant"], event["amount_cents"]]
    times = state["times"] + 1 if state["last"] == now else 1
    operands = {"times": times, "reports": state["reports"], "merchant": event["merchant"], "nothing": None}
    return {**state, "last": now, "times": times}, operands if times >= 3 else None


charged_again = FoldRule(
    "charged-again",
    "The same amount at the same merchant for the third time in a row.",
    transactions,
    step,
    version="1",
    also=(device_locations,),
)
USE = replace(FRAUD, rules=(*FRAUD.rules, charged_again))

if __name__ == "__main__":
    from millrace.engines.flink.job import main
    from tests.flink import fold_job

    project.uses()[USE.name] = fold_job.USE  # a use that only this test has
    main(sys.argv[1:])
