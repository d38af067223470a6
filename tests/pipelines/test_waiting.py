"""A verdict that is not ok waits for outputs that may still come, and for no others."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from millrace.cli.app import run
from millrace.errors import InfraError
from millrace.patterns import load
from millrace.settings import SETTLED_AFTER_S, Settings
from millrace.target import Target
from millrace.traffic import plan_for
from millrace.traffic.labels import Labels
from millrace.verbs import validation
from millrace.verify import Evidence, Verdict, judge
from pipelines.fraud.traffic import TRAFFIC
from tests.pipelines.pretend import QUESTION, START_MS, messages, ran, topics

PLAN = plan_for(TRAFFIC, 400, 20, seed=7, name="p", customers=100, frauds=0.1, edges=0.1, races=0.02)


@pytest.fixture(scope="module")
def good() -> Evidence:
    return ran(PLAN, topics(messages(PLAN)))


@pytest.fixture(scope="module")
def mislabelled(good: Evidence) -> Evidence:
    """With labels on events that set nothing off: an everyday purchase, and a minute in which a card bought once."""
    (key, fact), *_ = everyday(good)
    return labelled(good, {("above-previous-max", (key, fact)): "everyday", ("burst", (key, fact)): "everyday"})


def everyday(good: Evidence) -> list[tuple[str, str]]:
    assert good.labels is not None
    alerted = {fact for _, (_, fact) in good.labels.meant}
    events = (json.loads(record.value or b"") for record in good.outputs["enriched"] or ())
    return [
        (e["customer"], e["transaction_id"]) for e in events if not e["flags"] and e["transaction_id"] not in alerted
    ]


def labelled(good: Evidence, more: dict[tuple[str, tuple[str, str]], str]) -> Evidence:
    assert good.labels is not None
    return replace(good, labels=replace(good.labels, meant={**good.labels.meant, **more}))


def test_a_label_that_the_oracle_does_not_share_never_comes_true(mislabelled: Evidence) -> None:
    verdict = judge(QUESTION, mislabelled)
    assert {check.name for check in verdict.checks if check.status != "ok"} == {"labels"}
    assert (verdict.is_settled, verdict.is_final) == (True, False)


def test_an_alert_that_is_due_may_come(good: Evidence, mislabelled: Evidence) -> None:
    for evidence in (good, mislabelled):
        without = replace(evidence, outputs={**evidence.outputs, "alerts": []})
        verdict = judge(QUESTION, without)
        assert "labels" in {check.name for check in verdict.checks if check.status == "failed"}
        assert not verdict.is_settled


def test_a_wrong_alert_stays_wrong_and_a_missing_one_may_come(good: Evidence) -> None:
    alerts = [json.loads(record.value or b"") for record in good.outputs["alerts"] or ()]
    at = next(n for n, alert in enumerate(alerts) if alert["rule"] == "above-previous-max")
    alerts[at]["operands"]["amount_cents"] = "-1"
    records = [
        replace(record, value=json.dumps(alert).encode())
        for record, alert in zip(good.outputs["alerts"] or (), alerts, strict=True)
    ]
    wrong = judge(QUESTION, replace(good, outputs={**good.outputs, "alerts": records}))
    assert (wrong.status, wrong.is_settled) == ("failed", True)
    other = next(n for n, alert in enumerate(alerts) if n != at and alert["rule"] == "above-previous-max")
    fewer = [record for n, record in enumerate(records) if n != other]
    assert not judge(QUESTION, replace(good, outputs={**good.outputs, "alerts": fewer})).is_settled


def test_no_output_replaces_input_that_was_deleted(good: Evidence) -> None:
    verdict = judge(QUESTION, replace(good, deleted=["transactions"]))
    assert (verdict.status, verdict.is_settled) == ("unknown", True)


def test_labels_that_were_not_read_stay_unread(good: Evidence) -> None:
    verdict = judge(QUESTION, replace(good, labels=Labels(), unlabelled=["the run 'p' was interrupted"]))
    assert (verdict.status, verdict.is_settled) == ("unknown", True)


@dataclass
class Clock:
    """Time that passes only in sleep."""

    now_s: float = 0.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@dataclass
class AllRead:
    """The reading of a pattern whose outputs have all come, or all but one refusal."""

    evidence_: Evidence
    whole: bool = True
    waited: list[float] = field(default_factory=list)
    tables: dict[str, object] = field(default_factory=dict)

    def __call__(self, *_: object) -> AllRead:
        return self

    def read(self) -> None: ...
    def close(self) -> None: ...
    def size(self) -> tuple[int, ...]:
        return (1,)

    def counts(self) -> str:
        return "all"

    def is_whole(self) -> bool:
        return self.whole

    def evidence(self, runs: object) -> Evidence:
        return self.evidence_

    def wait_for_more(self, within_s: float, *, in_tables: bool) -> bool:
        self.waited.append(within_s)
        return False


@pytest.mark.parametrize(
    ("labels", "is_whole", "waits"), [("wrong", True, False), ("wrong", False, True), ("due", True, True)]
)
def test_a_red_verdict_waits_only_for_what_may_change_it(
    tmp_path: object,
    good: Evidence,
    mislabelled: Evidence,
    monkeypatch: pytest.MonkeyPatch,
    labels: str,
    is_whole: bool,
    waits: bool,
) -> None:
    clock = Clock()
    evidence = mislabelled if labels == "wrong" else replace(good, outputs={**good.outputs, "alerts": []})
    reading = AllRead(evidence, is_whole)
    monkeypatch.setattr(validation, "_Reading", reading)
    times = SimpleNamespace(monotonic=lambda: clock.now_s, sleep=clock.sleep, time=lambda: START_MS / 1000)
    monkeypatch.setattr(validation, "time", times)
    target = Target.read(Settings.read({"MILLRACE_STATE": str(tmp_path)}), {})
    settled_after_s = SETTLED_AFTER_S / 6
    verdict = validation.verdict(target, load("flink"), within_s=1_000, settled_after_s=settled_after_s)
    waited_s = clock.now_s + sum(reading.waited)
    assert verdict.status == "failed"
    assert settled_after_s <= waited_s < SETTLED_AFTER_S if waits else waited_s < settled_after_s
    assert set(reading.waited) <= {settled_after_s}


def test_the_command_passes_on_how_long_it_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, within_s: float, settled_after_s: float, **__: object) -> Verdict:
        raise InfraError(f"within {within_s} s, settled after {settled_after_s} s")

    monkeypatch.setattr(validation, "verdict", refuse)
    monkeypatch.setenv("MILLRACE_STATE", str(tmp_path))
    with pytest.raises(InfraError, match=r"^within 20\.0 s, settled after 7\.0 s$"):
        run(["validate", "flink", "--within", "20", "--settled-after", "7"])


@pytest.mark.parametrize(("in_tables", "waited_s"), [(True, 30), (False, SETTLED_AFTER_S)])
def test_a_table_that_lags_is_awaited_as_long_as_it_takes(
    monkeypatch: pytest.MonkeyPatch, in_tables: bool, waited_s: float
) -> None:
    """Nothing more comes in topics and files; the table gets its last row after 30 s."""
    clock = Clock()
    monkeypatch.setattr(validation, "time", SimpleNamespace(monotonic=lambda: clock.now_s, sleep=clock.sleep))
    monkeypatch.setattr(validation, "stored_tables", lambda *_: ({"table of x": clock.now_s >= 30}, {}))
    reading = validation._Reading.__new__(validation._Reading)
    vars(reading).update(target=SimpleNamespace(hbase=None), variant=None, tables={"table of x": False})
    monkeypatch.setattr(validation._Reading, "read", lambda self: None)
    monkeypatch.setattr(validation._Reading, "size", lambda self: (1,))
    assert reading.wait_for_more(SETTLED_AFTER_S, in_tables=in_tables) is in_tables
    assert waited_s <= clock.now_s < waited_s + 5
