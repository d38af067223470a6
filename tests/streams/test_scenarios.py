"""Kafka Streams satisfies every scenario and agrees with the oracle on a random tape, with each of its guarantees."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from millrace.patterns import EnginePlan, load
from millrace.settings import Settings
from millrace.target import Target
from tests.flink.test_scenarios import (  # noqa: F401  # the same checks for every engine, collected here for this one
    DAY_MS,
    SCENARIOS,
    SEED,
    judged,
    never_said,
    said,
    spoilt_references,
    tape,
    tape_references,
    test_every_accepted_event_is_enriched_as_the_oracle_says,
    test_every_alert_is_the_oracles_and_every_finding_has_one,
    test_every_message_has_its_key,
    test_every_minute_is_summed_up_as_the_oracle_says,
    test_every_refusal_is_a_dead_letter_with_its_reason_and_its_bytes,
    test_flink_satisfies,
    test_only_what_came_too_late_is_kept_out_of_the_windows,
    test_what_a_transaction_took_back_is_in_no_output,
)
from tests.player import Outcome, Player, ensure_topics, own_plan
from tests.together import placed, span_ms

VARIANT = load("streams")  # the one in which Kafka Streams does everything
DELIVERIES = ("at-least-once-with-ids", "exactly-once")

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", params=DELIVERIES)
def played(request: pytest.FixtureRequest, outcomes: Mapping[str, Outcome]) -> Outcome:
    return outcomes[request.param]


@pytest.fixture(scope="module")
def start_ms() -> int:
    """Two days ago: far from both limits of an event's age."""
    return int(time.time() * 1000) // 60_000 * 60_000 - 2 * DAY_MS


@pytest.fixture(scope="module")
def outcomes(stack: Settings, start_ms: int) -> Iterator[dict[str, Outcome]]:
    """What came of the scenarios and the tape, played to one job for each guarantee."""
    print(f"MILLRACE_SEED={SEED}")
    target = Target.read(stack, {})
    plans = {each: own_plan(target, VARIANT, f"scenarios-{each}", delivery=each) for each in DELIVERIES}
    with ThreadPoolExecutor() as both:
        try:
            yield dict(zip(plans, both.map(partial(play, target, start_ms=start_ms), plans.values()), strict=True))
        finally:
            for each in plans.values():
                target.engine(each.engine).stop(each)


def play(target: Target, plan: EnginePlan, start_ms: int) -> Outcome:
    ensure_topics(plan, VARIANT)
    player = Player(plan)
    player.references([*(each for scenario in SCENARIOS for each in scenario.references()), *tape_references()])
    player.send(spoilt_references())
    player.take_back(never_said())
    target.engine(plan.engine).start(plan, None)
    stories = [message for scenario, at_ms in placed(SCENARIOS, start_ms) for message in scenario.messages(at_ms)]
    for phase in range(max(message.phase for message in stories) + 1):
        now = [message for message in stories if message.phase == phase]
        player.play([(message.topic, message.key, message.value) for message in now], start_ms - DAY_MS)
    for phase_of_tape in tape(start_ms + span_ms(SCENARIOS)):
        player.play(phase_of_tape, start_ms - DAY_MS)
    player.close(start_ms + span_ms(SCENARIOS) + DAY_MS)
    return player.outcome()


def test_both_guarantees_give_the_same(outcomes: Mapping[str, Outcome]) -> None:
    once, again = (said(outcomes[each]) for each in DELIVERIES)
    assert once == again
