"""The form of a run: what may be asked of it, with limits, so that the API refuses the rest before a run exists."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import Param

from millrace.engines import registry
from millrace.settings import SETTLED_AFTER_S, VALIDATE_WITHIN_S

EVENTS_MOST, RATE_LEAST = 5_000_000, 10
TASK_WITHIN = timedelta(minutes=10)
"""What a task has, traffic among them."""
AROUND_TRAFFIC = timedelta(minutes=1)
"""Reference data before the traffic, and the small purchases after it that complete the last windows."""
JUDGED_PER_S = 2_500
"""Events that a slow machine reads, judges and compares with its stores in a second."""
VERDICT_WITHIN = timedelta(seconds=VALIDATE_WITHIN_S + SETTLED_AFTER_S + EVENTS_MOST / JUDGED_PER_S)
"""What a verdict on the largest form has."""
DEPLOYED_WITHIN = 3 * TASK_WITHIN
"""After so long a deployment is late: what it may wait for a busy machine, not what it takes."""
PROVEN_WITHIN = DEPLOYED_WITHIN + TASK_WITHIN + VERDICT_WITHIN
"""After so long a proof of the largest form is late."""
SURVIVABLE = (*(server for engine in registry.manifests() for server in engine.survives), "kafka-1", "datanode-1")
"""Servers whose crash a pattern must survive."""


def deploy_form() -> dict[str, Param]:
    """What a deployment asks."""
    return {
        "approval": approval(),
        "fresh": Param(
            False,
            type="boolean",
            title="Begin anew",
            description=f"Jobs of {_forgetful()} start without the state that earlier ones left: what they knew of "
            "cards and customers is forgotten. Refused while the pattern runs.",
        ),
        "accept_loss": Param(
            False,
            type="boolean",
            title="Accept loss",
            description="A job that failed because messages were deleted before it read them continues behind them. "
            "What was lost is recorded, and no verdict is ok until the pattern's data is removed.",
        ),
    }


def _forgetful() -> str:
    return " and ".join(engine.title for engine in registry.manifests() if engine.forgets_if_fresh)


def prove_form(faults: Sequence[str] = SURVIVABLE) -> dict[str, Param]:
    """What a proof asks."""
    return {
        "events": Param(
            20_000,
            type="integer",
            minimum=0,
            maximum=EVENTS_MOST,
            title="Events",
            description="How many invented messages to send; 0 sends none and judges what is there. At the rate below "
            f"they must take no longer than {_in_words(TASK_WITHIN - AROUND_TRAFFIC)}.",
        ),
        "rate_per_s": Param(
            500,
            type="integer",
            minimum=RATE_LEAST,
            maximum=50_000,
            title="Rate per second",
            description="The pattern's promises hold at 1,000 per second, from the twentieth second on.",
        ),
        "seed": Param(
            1,
            type="integer",
            minimum=0,
            maximum=2**31 - 1,
            title="Seed",
            description="The same seed, events, rate and poison share make the same messages again.",
        ),
        "poison_share": Param(
            0.01,
            type="number",
            minimum=0,
            maximum=0.3,
            title="Poison share",
            description="The share of messages that nobody can read or believe: they must end as dead letters.",
        ),
        "tape": Param(
            "",
            type=["null", "string"],
            pattern="^[a-z0-9-]{0,40}$",
            title="Tape",
            description="A name for these messages. Give two patterns the same tape, seed, events, rate and poison "
            "share, and `compare` puts their figures side by side. Empty: a tape of this run's own.",
        ),
        "faults": Param(
            [],
            type="array",
            items={"type": "string", "enum": list(faults)},
            examples=list(faults),
            uniqueItems=True,
            title="Servers to crash",
            description="Each is killed when a third of the traffic has been sent, and brought back.",
        ),
        "approval": approval(),
        "keep": Param(
            False,
            type="boolean",
            title="Keep it running",
            description="Leave the jobs running after the verdict; `reconcile` then looks after them. A pattern that "
            "ran before this run is left running anyway.",
        ),
        "remove_data": Param(
            False,
            type="boolean",
            title="Remove the data afterwards",
            description="Delete the pattern's topics, tables, files and checkpoints at the end, with all they ever "
            "held. Only if it is not kept running and did not run before.",
        ),
    }


def teardown_form(names: Sequence[str]) -> dict[str, Param]:
    """What a teardown asks."""
    return {
        "pattern": which_pattern(names),
        "remove_data": Param(
            False,
            type="boolean",
            title="Remove the data",
            description="Delete the pattern's topics, tables, files and checkpoints, with all they ever held.",
        ),
        "approval": approval(),
    }


def too_much(params: Mapping[str, Any]) -> str | None:
    """Why the tasks of a run have no time for what its form asks; None if they have."""
    events, rate_per_s = params["events"], params["rate_per_s"]
    takes = timedelta(seconds=events / rate_per_s)
    if takes <= TASK_WITHIN - AROUND_TRAFFIC:
        return None
    return (
        f"{events:,} events at {rate_per_s:,} per second take {_in_words(takes)}; a task has {_in_words(TASK_WITHIN)}, "
        f"{_in_words(AROUND_TRAFFIC)} of it for what comes before and after: ask for fewer events or a higher rate"
    )


def _in_words(span: timedelta) -> str:
    minutes = span / timedelta(minutes=1)
    number, unit = (minutes / 60, "hour") if minutes >= 120 else (minutes, "minute")
    return f"{number:.0f} {unit}" if round(number) == 1 else f"{number:.0f} {unit}s"


def tape_of(given: str | None, run_id: str, try_number: int) -> str:
    """The name of a run's messages: as the form says, or one that no other run has.

    A second try has another name: its messages come at other times, so they are not those that were sent already.
    """
    name = given or f"run-{hashlib.sha256(run_id.encode()).hexdigest()[:8]}"
    return name if try_number <= 1 else f"{name}-{try_number}"


def which_pattern(names: Sequence[str]) -> Param:
    """The choice of a pattern; where there is none, no run can be asked for."""
    return Param(
        names[0] if names else None,
        type="string",
        enum=list(names),
        title="Pattern",
        description="The pattern that this is done to.",
    )


def approval() -> Param:
    """Whether a person must agree first."""
    return Param(
        False,
        type="boolean",
        title="Ask first",
        description="The run waits, before it does anything, until a person approves it under Required Actions.",
    )


def reason_begins() -> Param:
    """Which dead letters."""
    return Param(
        "",
        type=["null", "string"],
        pattern="^[a-zA-Z0-9_:-]{0,80}$",
        title="Reason begins with",
        description="Such as unknown:merchants, json, missing:merchant; empty means all that may be sent again.",
    )
