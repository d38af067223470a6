"""Every way to spoil a run is noticed by the check that is there for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from millrace import deployments
from millrace.cli.verify import as_data, rows
from millrace.errors import InfraError
from millrace.oracle import Record
from millrace.patterns import Variant
from millrace.patterns.loss import Loss
from millrace.rules.outputs import HOP
from millrace.settings import Settings
from millrace.target import Target
from millrace.traffic import plan_for
from millrace.verbs import ledger, validation
from millrace.verbs import self_test as testing
from millrace.verbs.traffic import Counted
from millrace.verify import Evidence, Question, checks, spoiling
from millrace.verify.checking import Found
from millrace.verify.spoiling import Outcome, SelfTest, self_test
from pipelines.fraud.traffic import TRAFFIC
from tests.pipelines.pretend import HOURS_MS, QUESTION, SECRETS, START_MS, messages, ran, recorded, short_run, topics

SPOILINGS_LEAST = 60
PLAN = plan_for(TRAFFIC, 400, 20, seed=3, name="p", customers=60, frauds=0.1, edges=0.1, races=0.02)


@pytest.fixture(scope="module")
def fraud() -> tuple[Question, Evidence]:
    raw = topics(messages(PLAN))
    run = recorded(PLAN, raw)
    evidence = replace(ran(PLAN, raw), hop_sent_ms=range(*run.span_ms, 1_000), read_ms=START_MS + HOURS_MS)
    alerts = evidence.outputs["alerts"] or ()
    received_ms = {json.loads(each.value or b"")["alert_id"]: each.ingest_ms + 1.5 for each in alerts}
    evidence = replace(evidence, received_ms=received_ms)
    run = replace(run, by_topic={**run.by_topic, HOP: len(evidence.hop_sent_ms)})
    return replace(QUESTION, runs=[run], secrets=SECRETS), restarted(evidence)


def restarted(evidence: Evidence) -> Evidence:
    """The same run by an engine that was restarted: a part of every output is there twice."""

    def with_copies(records: Sequence[Record]) -> list[Record]:
        own = len(records)
        again = records[own // 3 : own * 2 // 3]
        return [
            *records,
            *(replace(each, offset=each.offset + own, ingest_ms=each.ingest_ms + 5_000) for each in again),
        ]

    return replace(evidence, outputs={kind: with_copies(own or ()) for kind, own in evidence.outputs.items()})


def test_each_spoiling_of_a_fraud_run_is_noticed_by_its_check(fraud: tuple[Question, Evidence]) -> None:
    found = self_test(*fraud)
    assert found.why == ""
    assert found.missed == []
    assert len(found.outcomes) >= SPOILINGS_LEAST
    spoilt = {check for outcome in found.outcomes for check in outcome.checks}
    assert spoilt >= {each.name for each in checks.checkers(checks.Case(*fraud))}, "each check notices something"
    assert "earlier alerts" in spoilt
    of_record = {f"the record of a run {how}" for how in ("is removed", "is emptied", "counts no bare hop")}
    of_references = {f"{kind}: one that a run sent is lost" for kind in ("merchants", "customers")}
    assert {"the record of runs lacks a line", *of_record, *of_references} <= {each.name for each in found.outcomes}


def test_where_nothing_may_come_twice_each_repetition_is_noticed(short: Evidence) -> None:
    once = replace(QUESTION, is_once=True)
    found = {each.name: each for each in self_test(once, short).outcomes}
    for kind in ("enriched", "alerts", "dead-letters", "windows"):
        assert "repetitions" in found[f"{kind}: one is there twice"].noticed
    for kind in ("alerts", "windows"):
        assert "repetitions" in found[f"{kind}: one is there twice, made anew"].noticed
    assert "alerts: burst: one is lost, and its events came out late" in found
    assert all(each.is_noticed for each in found.values())
    assert (
        self_test(once, restarted(short)).why == "only a run whose verdict is ok can be spoilt: repetitions is failed"
    )


@pytest.fixture(scope="module")
def short() -> Evidence:
    return short_run(PLAN)


def test_a_check_that_no_longer_notices_is_named(short: Evidence, monkeypatch: pytest.MonkeyPatch) -> None:
    blind = replace(checks.enrichment.CHECKER, find=lambda case: Found({}))
    monkeypatch.setattr(checks.enrichment, "CHECKER", blind)
    missed = {each.name: each for each in self_test(QUESTION, short).missed}
    assert missed["enriched: flags is altered"].checks == ("enrichment",)
    assert "enriched: merchant_place is altered" in missed


def test_traffic_is_labelled_for_rules_that_the_pattern_lacks_too(short: Evidence) -> None:
    assert short.labels is not None
    labels = replace(short.labels, meant={("elsewhere", ("anna", "1")): "spree", **short.labels.meant})
    found = self_test(QUESTION, replace(short, labels=labels))
    assert found.why == ""
    assert found.missed == []
    assert "labels: one without its alert" in {each.name for each in found.outcomes}


def test_only_a_run_that_is_ok_can_be_spoilt(short: Evidence) -> None:
    found = self_test(QUESTION, replace(short, stores={**short.stores, "files": []}))
    assert found.outcomes == ()
    assert found.why == "only a run whose verdict is ok can be spoilt: files is failed"


def test_a_run_with_an_accepted_loss_cannot_be_spoilt(
    short: Evidence, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Reading:
        """The run, as if it were read from servers."""

        def __init__(self, target: Target, variant: Variant) -> None: ...

        def read(self) -> None: ...

        def counts(self) -> str:
            return ""

        def evidence(self, runs: Counted) -> Evidence:
            return short

        def close(self) -> None: ...

    monkeypatch.setattr(validation, "_Reading", Reading)
    target = Target(Settings.read({"MILLRACE_STATE": str(tmp_path)}), {"KAFKA_BOOTSTRAP": "nowhere"})
    loss = {"accepted_ms": 1, "engine": "flink", "loss": Loss("flink.transactions", 0, 3, 7, 9).plain()}
    deployments.write_json(deployments.deployed_file(target, "flink").with_suffix(".losses"), [loss])
    with pytest.raises(InfraError, match="can be spoilt: loss is unknown"):
        testing.self_test(target, "flink")


def test_the_ledger_of_a_pattern_is_spoilt_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own, of_ledger = Outcome("a", ("x",), ("x",)), Outcome("ledger: b", ("ledger",), ())
    target = Target(Settings.read({"MILLRACE_STATE": str(tmp_path)}), {"KAFKA_BOOTSTRAP": "nowhere"})
    monkeypatch.setattr(validation, "finished", lambda *_, **__: (QUESTION, None))
    monkeypatch.setattr(spoiling, "self_test", lambda *_: SelfTest("flink", (own,)))
    monkeypatch.setattr(ledger, "self_test", lambda *_: (of_ledger,))
    assert testing.self_test(target, "flink").outcomes == (own,)
    deployments.want(target, "flink", "")
    deployments.want_companion(target, "flink", deployments.VALIDATOR)
    found = testing.self_test(target, "flink")
    assert (found.outcomes, found.missed) == ((own, of_ledger), [of_ledger])


def test_the_outcomes_are_lines_and_json() -> None:
    found = SelfTest("p", (Outcome("a", ("x",), ("x", "y")), Outcome("b", ("x",), ("y",))))
    assert [each.name for each in found.missed] == ["b"], "another check is not enough"
    assert as_data(found)["missed"] == 1
    assert [row[-1] for row in rows(found.outcomes)] == ["noticed", "MISSED"]
