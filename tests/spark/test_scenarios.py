"""Spark satisfies every scenario and agrees with the oracle on a random tape, all in one driver and one run."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from millrace.oracle import summary_rows
from millrace.patterns import load
from millrace.settings import Settings
from millrace.target import Target
from pipelines.fraud import FRAUD
from tests.flink.test_scenarios import (  # noqa: F401  # the same checks for every engine, collected here for Spark
    DAY_MS,
    SEED,
    judged,
    lates,
    never_said,
    spoilt_references,
    tape,
    tape_references,
    test_every_accepted_event_is_enriched_as_the_oracle_says,
    test_every_alert_is_the_oracles_and_every_finding_has_one,
    test_every_message_has_its_key,
    test_every_refusal_is_a_dead_letter_with_its_reason_and_its_bytes,
    test_flink_satisfies,
    test_only_what_came_too_late_is_kept_out_of_the_windows,
    test_what_a_transaction_took_back_is_in_no_output,
)
from tests.player import Outcome, Player, ensure_topics, own_plan
from tests.together import SCENARIOS, placed, span_ms

VARIANT = load("spark")  # the one in which Spark does everything
STARTED_WITHIN_S = 300

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def start_ms() -> int:
    """Two days ago: far from both limits of an event's age."""
    return int(time.time() * 1000) // 60_000 * 60_000 - 2 * DAY_MS


@pytest.fixture(scope="module")
def played(stack: Settings, start_ms: int) -> Iterator[Outcome]:
    """What came of the scenarios and the tape; settled in between, so there are many batches."""
    print(f"MILLRACE_SEED={SEED}")
    target = Target.read(stack, {})
    plan = own_plan(target, VARIANT, "scenarios-spark", persist=(), stores=None)
    ensure_topics(plan, VARIANT)
    player = Player(plan)
    player.references([*(each for scenario in SCENARIOS for each in scenario.references())])
    spark = target.engine("spark")
    spark.start(plan, None)
    try:
        deadline = time.monotonic() + STARTED_WITHIN_S
        while spark.job(plan).state == "starting" and time.monotonic() < deadline:
            time.sleep(0.5)
        assert spark.job(plan).state == "running", spark.job(plan)
        stories = [message for scenario, at_ms in placed(SCENARIOS, start_ms) for message in scenario.messages(at_ms)]
        for phase in range(max(message.phase for message in stories) + 1):
            now = [message for message in stories if message.phase == phase]
            player.play([(message.topic, message.key, message.value) for message in now], start_ms - DAY_MS)
        # Reference data that comes while the driver runs is known from the next batch on.
        player.references(tape_references())
        player.send(spoilt_references())
        player.take_back(never_said())
        for phase_of_tape in tape(start_ms + span_ms(SCENARIOS)):
            player.play(phase_of_tape, start_ms - DAY_MS)
        player.close(start_ms + span_ms(SCENARIOS) + DAY_MS)
        yield player.outcome()
    finally:
        spark.stop(plan)


def test_the_last_numbers_of_each_minute_are_those_of_the_oracle(played: Outcome) -> None:
    """What came late for the windows of rules may still be counted in a minute, or not."""
    summary, late = FRAUD.summaries[0], lates(played)
    found = {
        (row["window_start_ms"], *(row[key] for key in summary.keys)): {name: row[name] for name in summary.measures}
        for row in played.windows
    }
    with_late = summary_rows(summary, played.enriched)
    without = summary_rows(summary, [event for event in played.enriched if event["source_offset"] not in late])
    assert without.keys() <= found.keys() <= with_late.keys()
    assert [key for key, numbers in found.items() if numbers not in (with_late[key], without.get(key))] == []
