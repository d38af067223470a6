"""Every engine satisfies every scenario and agrees with the oracle on a random tape, with each of its guarantees.

An engine takes part by its manifest and by a pattern in which it does everything; one that has no windows, by a pattern
in which it has the per-event stage. Nothing is killed here: what a guarantee is worth then, test_kills.py shows, and
each engine's own tests of recovery.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Any

import pytest

from millrace import oracle, registry
from millrace.job import Engine
from millrace.machine.processes import wait_until
from millrace.oracle import summary_rows, value_base64, window_findings
from millrace.patterns import EnginePlan, Variant, load, names
from millrace.patterns.model import AT_LEAST_ONCE, shape_of
from millrace.rules import WindowRule
from millrace.settings import Settings
from millrace.target import Target
from millrace.testing import token
from millrace.verify.checks.numbers import is_between
from pipelines.fraud import FRAUD
from pipelines.fraud.traffic.poison import REFERENCE_POISON
from tests.beside import beside
from tests.conformance.played import GUARANTEES
from tests.player import Outcome, Player, Sent, engine_for, ensure_topics, own_plan
from tests.together import SCENARIOS, Own, placed, span_ms

FORMS: Mapping[tuple[str, str], tuple[str, Mapping[str, Any]]] = {
    # Of two parallel instances one has no partition to read, and must hold nobody back.
    ("flink", AT_LEAST_ONCE): ("two", {"parallelism": 2}),
}
"""How an engine runs while it gives a guarantee."""
SEED = int(os.environ.get("MILLRACE_SEED", "20261121"))
DAY_MS = 86_400_000
STARTED_WITHIN_S = 600

pytestmark = [pytest.mark.stack, pytest.mark.timeout(2400)]


@dataclass(frozen=True, eq=False)
class Run:
    """One engine with one guarantee and in one form."""

    variant: Variant
    guarantee: str
    form: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def engine(self) -> str:
        return self.variant.pattern.stages.events.engine

    @property
    def rules(self) -> set[str]:
        """The names of the rules that it runs."""
        return {rule.name for rule in FRAUD.rules if claims(self.engine, shape_of(rule))}

    @property
    def summaries(self) -> set[str]:
        """The names of the summaries that it runs."""
        return {summary.name for summary in FRAUD.summaries if claims(self.engine, "summary")}

    def __str__(self) -> str:
        return "/".join(each for each in (self.engine, self.guarantee, self.form) if each)


def runs() -> Iterator[Run]:
    wholes = {whole_engine(each): each for each in map(load, names()) if each.use is FRAUD}
    for manifest in registry.manifests():
        assert manifest.name in wholes, f"no pattern of fraud has {manifest.name} for both stages"
        for guarantee in (each for each in GUARANTEES if each in manifest.can):
            yield Run(wholes[manifest.name], guarantee, *FORMS.get((manifest.name, guarantee), ("", {})))


def claims(engine: str, shape: str) -> bool:
    return shape in registry.manifest(engine).can


def whole_engine(variant: Variant) -> str | None:
    """The engine that runs both stages of a pattern."""
    stages = variant.pattern.stages
    return stages.events.engine if stages.events.engine == stages.windowing.engine else None


RUNS = tuple(runs())


@pytest.fixture(scope="module", params=RUNS, ids=str)
def run(request: pytest.FixtureRequest) -> Run:
    made: Run = request.param
    return made


@pytest.fixture(scope="module")
def played(run: Run, outcomes: Mapping[Run, Outcome]) -> Outcome:
    return outcomes[run]


@pytest.fixture(scope="module")
def start_ms() -> int:
    """Two days ago: far from both limits of an event's age."""
    return int(time.time() * 1000) // 60_000 * 60_000 - 2 * DAY_MS


@pytest.fixture(scope="module")
def outcomes(stack: Settings, start_ms: int) -> Iterator[dict[Run, Outcome]]:
    """What came of the scenarios and the tape, played to all runs at once: most of what each takes is waiting."""
    print(f"MILLRACE_SEED={SEED}")
    target = Target.read(stack, {})
    plans = {
        run: own_plan(
            target,
            run.variant,
            f"scenarios-{run}".replace("/", "-"),
            engine=run.engine,
            delivery=run.guarantee,
            **({"persist": (), "stores": None} | dict(run.changes)),
        )
        for run in RUNS
    }
    for run, plan in plans.items():
        ensure_topics(plan, run.variant)  # one after the other: a broker creates all at once in more time than it has
    more = {run.engine for run in RUNS if not registry.manifest(run.engine).is_default}
    with beside(stack, sorted(more)), ThreadPoolExecutor(len(RUNS)) as all_at_once:
        found = all_at_once.map(partial(outcome_of, target, start_ms=start_ms), plans.keys(), plans.values())
        yield dict(zip(plans, found, strict=True))


def outcome_of(target: Target, run: Run, plan: EnginePlan, start_ms: int) -> Outcome:
    with engine_for(target, plan) as engine:
        return play(engine, run, plan, start_ms)


def play(engine: Engine, run: Run, plan: EnginePlan, start_ms: int) -> Outcome:
    player = Player(plan)
    player.references([each for scenario in SCENARIOS for each in scenario.references()])
    engine.start(plan, None)
    wait_until(lambda: engine.job(plan).state in ("running", "failed"), STARTED_WITHIN_S)
    assert engine.job(plan).state == "running", engine.job(plan)
    stories = [message for scenario, at_ms in placed(SCENARIOS, start_ms) for message in scenario.messages(at_ms)]
    for phase in range(max(message.phase for message in stories) + 1):
        now = [message for message in stories if message.phase == phase]
        player.play([(message.topic, message.key, message.value) for message in now], start_ms - DAY_MS)
    # Reference data that comes while the job runs is known to all events that come after it.
    player.references(tape_references())
    player.send(spoilt_references())
    player.take_back(never_said())
    for phase_of_tape in tape(start_ms + span_ms(SCENARIOS)):
        player.play(phase_of_tape, start_ms - DAY_MS)
    if plan.windows or plan.summaries:
        player.close(start_ms + span_ms(SCENARIOS) + DAY_MS)
    if plan.parallelism > 1:
        await_every_instance(engine, plan)
    return player.outcome()


def await_every_instance(engine: Engine, plan: EnginePlan) -> None:
    """The player has seen the outputs of one instance; a checkpoint that begins later has those of all."""
    for _ in range(2):  # one may have begun before
        before = engine.job(plan).checkpoints
        assert wait_until(lambda: engine.request_checkpoint(plan), STARTED_WITHIN_S)
        assert wait_until(lambda before=before: engine.job(plan).checkpoints > before, STARTED_WITHIN_S)


TAPE_CUSTOMERS = [f"tape-{n}" for n in range(12)]
TAPE_MERCHANTS = [f"shop-{n}" for n in range(9)]
CLOSED_SHOP = "closed-shop"
NEVER_SAID = "never-said"


def tape_references() -> Iterator[tuple[str, dict[str, str]]]:
    for customer in TAPE_CUSTOMERS:
        yield "customers", {"customer": customer, "segment": "private"}
    for merchant in TAPE_MERCHANTS:
        yield "merchants", {"merchant": merchant, "category": merchant[-1], "place": "Ulm"}


def spoilt_references() -> Iterator[Sent]:
    """Unreadable reference data, and a shop that was deleted."""
    shop = {"merchant": CLOSED_SHOP, "category": "none", "place": "Ulm", "customer": CLOSED_SHOP, "segment": "none"}
    yield "merchants", CLOSED_SHOP.encode(), json.dumps(shop).encode()
    yield "merchants", CLOSED_SHOP.encode(), None
    for poison in REFERENCE_POISON:
        yield poison.topic, CLOSED_SHOP.encode(), poison.spoil(shop)
    yield "merchants", TAPE_MERCHANTS[0].encode(), b""


def never_said() -> Iterator[Sent]:
    """What a transaction takes back: the closed shop opens again, a purchase there, and a broken message."""
    at_ms = int(time.time() * 1000)
    shop = {"merchant": CLOSED_SHOP, "category": "none", "place": "Ulm"}
    yield "merchants", CLOSED_SHOP.encode(), json.dumps(shop).encode()
    customer = TAPE_CUSTOMERS[0]
    purchase = {
        "transaction_id": NEVER_SAID,
        "customer": customer,
        "card": token(customer),
        "merchant": CLOSED_SHOP,
    }
    where = {"amount_cents": 1, "latitude": 0.0, "longitude": 0.0, "at_ms": at_ms}
    yield "transactions", customer.encode(), json.dumps({**purchase, **where}).encode()
    yield "transactions", customer.encode(), b"{"
    yield "device-locations", customer.encode(), json.dumps({"customer": customer, **where}).encode()


def tape(start_ms: int) -> Iterator[list[Sent]]:
    """Phases of random purchases, or of random phones: a few customers who do everything that a rule may look at."""
    random_ = random.Random(SEED)
    at_ms, sent = start_ms, list[bytes]()
    for phase in range(6):
        messages: list[Sent] = []
        for number in range(30 if phase % 2 == 0 else 160):
            customer = random_.choice(TAPE_CUSTOMERS)
            place = {"latitude": 48 + random_.choice([0, 0, 0.005, 0.02]), "longitude": 10.0}
            if phase % 2 == 0:
                event: dict[str, Any] = {
                    "customer": customer,
                    **place,
                    "at_ms": at_ms - random_.randrange(0, 1_200_000),
                }
                messages.append(("device-locations", customer.encode(), json.dumps(event).encode()))
                continue
            at_ms += random_.choice([0, 1, 500, 1_000, 3_000, 9_999, 10_000, 10_001])
            event = {
                "transaction_id": f"tape-{phase}-{number}",
                "customer": customer,
                "card": token(f"{customer}-{random_.choice('ab')}"),
                "merchant": random_.choice([*TAPE_MERCHANTS, CLOSED_SHOP]),
                "amount_cents": random_.choice([1, 500, random_.randrange(1, 5_000), 100_000_000]),
                **place,
                "at_ms": at_ms - random_.choice([0, 0, 0, 1, 2_500, 5_000]),
                "sent_ms": random_.choice([None, at_ms]),
            }
            sent.append(json.dumps(event).encode())
            again = random_.random() < 0.1
            value = random_.choice(sent) if again else sent[-1] if random_.random() < 0.9 else spoilt(random_, sent[-1])
            messages.append(("transactions", customer.encode(), value))
        yield messages


def spoilt(random_: random.Random, value: bytes) -> bytes:
    at = random_.randrange(len(value))
    return value[:at] + bytes([random_.randrange(256)]) + value[at + 1 :]


def lates(played: Outcome) -> set[int]:
    return {letter["offset"] for letter in played.dead_letters if letter["reason"] == "late"}


def belongs(scenario: Own, event: Mapping[str, Any]) -> bool:
    return str(event["subject"]).startswith(scenario.prefix)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_it_satisfies(run: Run, scenario: Own, played: Outcome) -> None:
    refused = {(d["topic"].partition(".")[2], d["offset"]): d["reason"] for d in played.dead_letters}
    own = [record for record in played.raw if (record.key or b"").decode().startswith(scenario.prefix)]
    sent = {
        topic: [m for m in scenario.messages(0) if m.topic == topic]
        for topic in {m.topic for m in scenario.messages(0)}
    }
    reasons = {
        message.line: reason
        for topic, messages in sent.items()
        for message, record in zip(messages, [r for r in own if r.topic == topic], strict=True)
        if (reason := refused.get((topic, record.offset), "late")) != "late"
    }
    alerts = [alert for alert in played.alerts if belongs(scenario, alert)]
    found = Counter((alert["rule"], frozenset(alert["event_ids"])) for alert in alerts)
    expected, refusals = scenario.expected
    assert found == Counter({each: count for each, count in expected.items() if each[0] in run.rules})
    assert reasons == refusals
    for alert in alerts:
        scenario.check_operands(as_finding(alert))


def as_finding(alert: Mapping[str, Any]) -> oracle.Finding:
    return oracle.Finding(
        alert["rule"],
        alert["rule_version"],
        alert["key"],
        alert["subject"],
        tuple(alert["event_ids"]),
        alert["operands"],
        alert["at_ms"],
        alert["window_start_ms"],
    )


@pytest.fixture(scope="module")
def judged(played: Outcome) -> list[oracle.Judged]:
    """The oracle's outcome for the same messages; settled phases make the order of arrival certain."""
    known: dict[str, dict[str, oracle.Event]] = {kind.name: {} for kind in FRAUD.references}
    kinds = {kind.name: kind for kind in FRAUD.references}
    refused = [
        oracle.Judged(record, reason)
        for record in played.references
        if (reason := oracle.refer(kinds[record.topic], known[record.topic], record)) is not None
    ]
    arrived = sorted(played.raw, key=lambda record: (record.ingest_ms, record.topic, record.offset))
    return [*refused, *oracle.judge(FRAUD, FRAUD.rules, arrived, known)]


def test_what_a_transaction_took_back_is_in_no_output(played: Outcome) -> None:
    said = {(record.topic, record.offset) for record in (*played.raw, *played.references)}
    assert NEVER_SAID not in {event["transaction_id"] for event in played.enriched}
    came_out = {(event["source_topic"].partition(".")[2], event["source_offset"]) for event in played.enriched}
    came_out |= {(letter["topic"].partition(".")[2], letter["offset"]) for letter in played.dead_letters}
    assert came_out <= said
    assert {letter["reason"] for letter in played.dead_letters} >= {"unknown:merchants"}  # the shop did not open


def test_every_accepted_event_is_enriched_as_the_oracle_says(played: Outcome, judged: list[oracle.Judged]) -> None:
    meant = {
        each.record.offset: {**each.event, "source_topic": played.enriched[0]["source_topic"]}
        for each in judged
        if each.reason is None and each.event and each.record.topic == FRAUD.judged.name
    }
    found = {event["source_offset"]: event for event in played.enriched}
    assert len(found) == len(played.enriched)
    assert found.keys() == meant.keys()
    for offset, event in found.items():
        assert list(event) == [field.name for field in FRAUD.enriched.fields]
        km = meant[offset]["km_from_phone"]
        assert event == {**meant[offset], "km_from_phone": None if km is None else pytest.approx(km, rel=1e-9)}


def test_every_refusal_is_a_dead_letter_with_its_reason_and_its_bytes(
    played: Outcome, judged: list[oracle.Judged]
) -> None:
    kinds = {kind.name: kind for kind in (*FRAUD.raw, *FRAUD.references)}
    meant = Counter(
        (
            each.record.topic,
            each.record.offset,
            each.reason,
            value_base64(kinds[each.record.topic], each.record.value, each.reason),
        )
        for each in judged
        if each.reason is not None
    )
    found = Counter(
        (letter["topic"].partition(".")[2], letter["offset"], letter["reason"], letter["value_base64"])
        for letter in played.dead_letters
        if letter["reason"] != "late"
    )
    assert found == meant
    assert {"unknown:merchants", *(poison.reason for poison in REFERENCE_POISON)} <= {
        reason for _, _, reason, _ in found
    }
    raw = {(record.topic, record.offset): record for record in (*played.raw, *played.references)}
    for letter in played.dead_letters:
        record = raw[letter["topic"].partition(".")[2], letter["offset"]]
        assert (letter["partition"], letter["ingest_ms"]) == (record.partition, record.ingest_ms)


def test_every_alert_is_the_oracles_and_every_finding_has_one(
    run: Run, played: Outcome, judged: list[oracle.Judged]
) -> None:
    late = lates(played)
    accepted = [e for e in played.enriched if e["source_offset"] not in late]
    findings = [finding for each in judged for finding in each.findings]
    findings += [f for rule in FRAUD.rules if isinstance(rule, WindowRule) for f in window_findings(rule, accepted)]
    meant = {finding.alert_id: finding for finding in findings if finding.rule in run.rules}
    found = {alert["alert_id"]: alert for alert in played.alerts}
    assert len(found) == len(played.alerts)
    assert found.keys() == meant.keys()
    for identity, alert in found.items():
        finding = meant[identity]
        assert alert == {
            **alert,
            "rule": finding.rule,
            "rule_version": finding.rule_version,
            "key": finding.key,
            "subject": finding.subject,
            "event_ids": list(finding.event_ids),
            "at_ms": finding.at_ms,
        }
        assert {name: float(text) for name, text in alert["operands"].items()} == finding.operands
    assert {alert["rule"] for alert in found.values()} == run.rules


def test_only_what_came_too_late_is_kept_out_of_the_windows(played: Outcome) -> None:
    newest = 0
    late = lates(played)
    for event in sorted(played.enriched, key=lambda event: event["source_offset"]):
        assert event["source_offset"] not in late or event["at_ms"] < newest - 5_000
        newest = max(newest, event["at_ms"])


def test_the_last_numbers_of_each_minute_are_those_of_the_oracle(run: Run, played: Outcome) -> None:
    if not run.summaries:
        assert played.windows == []
        return
    late, summary = lates(played), FRAUD.summaries[0]
    found = {
        (row["window_start_ms"], *(row[key] for key in summary.keys)): {name: row[name] for name in summary.measures}
        for row in played.windows
    }
    without = summary_rows(summary, [event for event in played.enriched if event["source_offset"] not in late])
    counts_late = registry.manifest(run.engine).counts_late
    with_late = summary_rows(summary, played.enriched) if counts_late else without
    assert without.keys() <= found.keys() <= with_late.keys()
    none = dict.fromkeys(summary.measures, 0)
    wrong = [key for key, own in found.items() if not is_between(own, without.get(key, none), with_late[key])]
    assert wrong == []
    assert {row["window_end_ms"] - row["window_start_ms"] for row in played.windows} == {60_000}
    if not counts_late:
        assert len(played.windows) == len(found), "the numbers of a minute come once"


def test_every_message_has_its_key(played: Outcome) -> None:
    assert set(played.keys["alerts"]) >= {alert["subject"].encode() for alert in played.alerts}
    assert set(played.keys["enriched"]) >= {event["customer"].encode() for event in played.enriched}
    assert None not in played.keys["alerts"] + played.keys["enriched"] + played.keys["dead-letters"]


@pytest.mark.parametrize(("one", "other"), [*combinations(RUNS, 2)], ids=str)
def test_any_two_find_the_same(one: Run, other: Run, outcomes: Mapping[Run, Outcome]) -> None:
    assert said(outcomes[one]) == said(outcomes[other])


def said(played: Outcome) -> tuple[Counter[str], Counter[tuple[str, int, str]]]:
    """What must not depend on the pace of a run: alerts of single events, and refusals by the message's number."""
    numbers: dict[tuple[str, int], int] = {}
    for kind in (*FRAUD.raw, *FRAUD.references):
        own = [record for record in (*played.raw, *played.references) if record.topic == kind.name]
        numbers |= {(kind.name, record.offset): number for number, record in enumerate(own)}
    refusals = (
        (kind, numbers[kind, letter["offset"]], letter["reason"])
        for letter in played.dead_letters
        if letter["reason"] != "late" and (kind := letter["topic"].partition(".")[2])
    )
    return Counter(a["alert_id"] for a in played.alerts if a["rule"] != "burst"), Counter(refusals)
