"""The form of a run: its fields, with limits, so that the API rejects invalid values before a run exists."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import Param

from millrace import registry
from millrace.rules import UseCase
from millrace.settings import SETTLED_AFTER_S, VALIDATE_WITHIN_S
from millrace.traffic import Share, Size, Traffic
from millrace.traffic.tape import MARGIN
from millrace.verify.closing import closing_ms

EVENTS_MOST, RATE_LEAST = 5_000_000, 10
TASK_WITHIN = timedelta(minutes=10)
"""Time limit of a task; `traffic` has more, by as long as its closing lasts."""
BEFORE_TRAFFIC = timedelta(seconds=50)
"""Time for the reference data before the traffic, and to spare."""
ENCODED_PER_S = 20_000
"""Events per second that a slow machine encodes, all of them before it sends the first."""
JUDGED_PER_S = 2_500
"""Events per second that a slow machine reads, checks and compares with the stores."""
VERDICT_WITHIN = timedelta(seconds=VALIDATE_WITHIN_S + SETTLED_AFTER_S + EVENTS_MOST / JUDGED_PER_S)
"""Time limit of a verdict on the largest form."""
DEPLOYED_WITHIN = 3 * TASK_WITHIN
"""A deployment is late after this time: it includes waits on a busy machine."""
PROVEN_WITHIN = DEPLOYED_WITHIN + TASK_WITHIN + VERDICT_WITHIN
"""A proof of the largest form is late after this time, and as long as its closing lasts."""
CRASHED_AT_MOST_PER_S = int(ENCODED_PER_S / (3 * MARGIN))
"""At a higher rate a third of the traffic's time, after which servers crash, may be over before its first event."""
SURVIVABLE = ("kafka-1", "datanode-1")
"""Servers that every pattern runs on and must survive; those of its engines are in their manifests."""


def survivable(engines: Sequence[str]) -> tuple[str, ...]:
    """The servers that a proof of a pattern on these engines may crash."""
    return (*(server for name in engines for server in registry.manifest(name).survives), *SURVIVABLE)


def deploy_form(*, with_canaries: bool) -> dict[str, Param]:
    """The fields of a deployment; canaries are offered where the use declares some."""
    canaries = {
        "canaries": Param(
            False,
            type="boolean",
            title="Send canaries",
            description="The watcher of the stack sends synthetic events that set off each rule every minute, as long "
            "as the pattern is deployed.",
        )
    }
    return {
        "approval": approval(),
        "fresh": Param(
            False,
            type="boolean",
            title="Fresh start",
            description=f"Jobs of {_forgetful()} start without the state of earlier jobs, so they have no history. "
            "Refused while the pattern runs.",
        ),
        "accept_loss": Param(
            False,
            type="boolean",
            title="Accept loss",
            description="If messages were deleted before a job read them, the job skips them instead of failing. "
            "The loss is recorded, and no verdict is ok until the pattern's data is removed.",
        ),
        "verdicts": Param(
            False,
            type="boolean",
            title="Judge continuously",
            description="The DAG `ledger` judges the pattern every five minutes, as long as it is deployed.",
        ),
        **(canaries if with_canaries else {}),
    }


def _forgetful() -> str:
    return " and ".join(engine.title for engine in registry.manifests() if engine.forgets_if_fresh)


def closing(use: UseCase) -> timedelta:
    """How long `traffic` sends events after the traffic itself, until the last windows of rules are complete."""
    return timedelta(milliseconds=closing_ms(use))


def prove_form(use: UseCase, faults: Sequence[str]) -> dict[str, Param]:
    """The fields of a proof; those of the mixture are what the use declares, `faults` the servers it may crash."""
    return {
        "events": Param(
            20_000,
            type="integer",
            minimum=0,
            maximum=EVENTS_MOST,
            title="Events",
            description="Number of generated messages; 0 sends none and validates the messages that are there. At the "
            f"rate below, sending must take at most {_in_words(TASK_WITHIN - BEFORE_TRAFFIC)}; small events follow for "
            f"{_in_words(closing(use))}, to close the last windows.",
        ),
        "rate_per_s": Param(
            500,
            type="integer",
            minimum=RATE_LEAST,
            maximum=50_000,
            title="Rate per second",
            description="Messages per second. The pattern's promises hold at 1,000 per second, after 20 seconds.",
        ),
        "seed": Param(
            1,
            type="integer",
            minimum=0,
            maximum=2**31 - 1,
            title="Seed",
            description="The same seed, events, rate, shares and sizes generate the same messages.",
        ),
        **_mixture(use.traffic),
        "tape": Param(
            "",
            type=["null", "string"],
            pattern="^[a-z0-9-]{0,40}$",
            title="Tape",
            description="A name for these messages. If two patterns run with the same tape, seed, events, rate, shares "
            "and sizes, the DAG `compare` puts their figures side by side. A pattern takes each tape once. Empty: a "
            "name that only this run has.",
        ),
        "faults": Param(
            [],
            type="array",
            items={"type": "string", "enum": list(faults)},
            examples=list(faults),
            uniqueItems=True,
            title="Servers to crash",
            description="Each is killed after a third of the traffic, and then started again. The rate above must be "
            f"at most {CRASHED_AT_MOST_PER_S:,}: at a higher one they could crash before the traffic begins.",
        ),
        "approval": approval(),
        "keep": Param(
            False,
            type="boolean",
            title="Keep running",
            description="Leave the jobs running after the verdict; the DAG `reconcile` then restarts dead jobs. A "
            "pattern that ran before this run stays up in any case.",
        ),
        "remove_data": Param(
            False,
            type="boolean",
            title="Remove the data afterwards",
            description="Delete the pattern's topics, tables, files and checkpoints at the end. Has no effect if the "
            "pattern ran before this run, or is kept running.",
        ),
    }


def mixture_words(traffic: Traffic | None) -> list[str]:
    """The options of `millrace traffic` to which the fields of the mixture belong."""
    return [f"--{name}={{{{ params.{field} }}}}" for field, name in _fields(traffic).items()]


def _mixture(traffic: Traffic | None) -> dict[str, Param]:
    fields = _fields(traffic)
    declared: dict[str, Share | Size] = {**traffic.shares, **traffic.sizes} if traffic else {}
    return {
        field: Param(
            declared[name].default,
            type="number" if isinstance(declared[name], Share) else "integer",
            minimum=declared[name].least,
            maximum=declared[name].most,
            title=field.replace("_", " ").capitalize(),
            description=declared[name].help,
        )
        for field, name in fields.items()
    }


def _fields(traffic: Traffic | None) -> dict[str, str]:
    """Field of the form -> share or size."""
    if traffic is None:
        return {}
    shares = {f"{name}_share".replace("-", "_"): name for name in traffic.shares}
    return shares | {name.replace("-", "_"): name for name in traffic.sizes}


def teardown_form(names: Sequence[str]) -> dict[str, Param]:
    """The fields of a teardown."""
    return {
        "pattern": which_pattern(names),
        "remove_data": Param(
            False,
            type="boolean",
            title="Remove the data",
            description="Delete the pattern's topics, tables, files and checkpoints, for good.",
        ),
        "approval": approval(),
    }


def too_much(params: Mapping[str, Any]) -> str | None:
    """Why the traffic of a form exceeds the time limit of its task; None if it does not.

    The closing of its use does not count: the limit is longer by as much.
    """
    events, rate_per_s = params["events"], params["rate_per_s"]
    takes = timedelta(seconds=events / rate_per_s + events / ENCODED_PER_S)
    if takes <= TASK_WITHIN - BEFORE_TRAFFIC:
        return None
    return (
        f"{events:,} events at {rate_per_s:,} per second take {_in_words(takes)}; a task has {_in_words(TASK_WITHIN)}, "
        f"{_in_words(BEFORE_TRAFFIC)} of it for what comes before; reduce the events or raise the rate"
    )


def too_early(params: Mapping[str, Any]) -> str | None:
    """Why the servers of a form may crash before its traffic begins; None if they cannot.

    The crash counts from the start of its task, and `traffic` encodes all events before it sends the first.
    """
    faults, rate_per_s = params["faults"], params["rate_per_s"]
    if not faults or not params["events"] or rate_per_s <= CRASHED_AT_MOST_PER_S:
        return None
    return (
        f"{', '.join(faults)}: at {rate_per_s:,} events per second a crash could come before the traffic begins, as "
        "all events are encoded first; with servers to crash the rate must be at most "
        f"{CRASHED_AT_MOST_PER_S:,} per second: lower it, or select no servers to crash"
    )


def not_of_the_stack(faults: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """Why a proof in this environment cannot crash the servers of its form; None if it can."""
    from millrace.target import Given  # here: it imports clients of the stores, which no DAG file may

    if not faults or Given.read(environment).addresses is None:
        return None
    return (
        f"{', '.join(faults)}: a crash is of servers of the local stack, and MILLRACE_TARGET gives the addresses of "
        "others; select no servers to crash"
    )


def _in_words(span: timedelta) -> str:
    seconds = span.total_seconds()
    size, unit = next((each for each in ((3600, "hour"), (60, "minute")) if seconds >= 2 * each[0]), (1, "second"))
    number = seconds / size
    return f"{number:.0f} {unit}" if round(number) == 1 else f"{number:.0f} {unit}s"


def tape_of(given: str | None, run_id: str, try_number: int) -> str:
    """The name of a run's messages: that of the form, or one that no other run has.

    A retry has another name, because its messages have other times than those of the first try.
    """
    name = given or f"run-{hashlib.sha256(run_id.encode()).hexdigest()[:8]}"
    return name if try_number <= 1 else f"{name}-{try_number}"


def which_pattern(names: Sequence[str]) -> Param:
    """The choice of a pattern; without patterns, no run can be triggered."""
    return Param(
        names[0] if names else None,
        type="string",
        enum=list(names),
        title="Pattern",
        description="The pattern on which this run acts.",
    )


def approval() -> Param:
    """Whether a person must approve the run."""
    return Param(
        False,
        type="boolean",
        title="Require approval",
        description="Before its first change, the run waits until a person approves it under Required Actions.",
    )


def reason_begins() -> Param:
    """The choice of dead letters, by the beginning of their reason."""
    return Param(
        "",
        type=["null", "string"],
        pattern="^[a-zA-Z0-9_:-]{0,80}$",
        title="Reason begins with",
        description="For example json, or missing: and the name of a field. Empty: all that may be sent again.",
    )
