"""Variants on the real stack: provision, deploy, labelled traffic, verdict, and nothing left behind."""

import base64
import io
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from millrace import deployments
from millrace.errors import InfraError
from millrace.job import EngineError
from millrace.machine import processes
from millrace.oracle import Record
from millrace.patterns import Variant, load, names
from millrace.patterns import topics as topics_of
from millrace.patterns.contracts import contracts_of
from millrace.patterns.parquet import is_data_file
from millrace.settings import Settings
from millrace.stores import topics
from millrace.stores.changes import pending
from millrace.stores.topics import Tail
from millrace.target import Target
from millrace.traffic import plan_for
from millrace.verbs import letters, sending, show, traffic
from millrace.verbs.deploy import deploy
from millrace.verbs.provision import ContractError, provision
from millrace.verbs.teardown import teardown
from millrace.verbs.validate import Validation, validate
from pipelines.fraud.invented_cards import invented_card, invented_cards_in
from pipelines.fraud.traffic.poison import NUMBER
from tests.patterns import SETTLED_AFTER_S, problems
from tests.searching import contents

pytestmark = [pytest.mark.stack, pytest.mark.timeout(2400)]

ELSEWHERE = {
    "flink": "tests/airflow/test_airflow.py",
    "flink-spark": "tests/airflow/test_airflow.py",
    "flood-flink-spark": "tests/test_long_runs.py",
    "flood-spark": "tests/test_long_runs.py",
    "spark": "tests/test_long_runs.py",
    "storm": "tests/storm/test_verdict.py",
    "storm-at-most-once": "tests/storm/test_verdict.py",
    "storm-exactly-once": "tests/storm/test_verdict.py",
    "storm-spark": "tests/storm/test_verdict.py",
    "streams": "tests/streams/test_verdict.py",
}
"""The variants whose verdict another suite shows."""
KILLED, KILLED_AFTER = ("streams-spark", "flood-spark-realtime"), 1_000
"""The variants whose driver dies in the middle of the traffic, and the events that it has judged by then."""
VARIANTS = sorted(
    (name for name in names() if name not in ELSEWHERE and load(name).use.traffic),
    key=lambda name: (load(name).use.name, name),
)
FRAUDS = [name for name in VARIANTS if load(name).use.name == "fraud"]
EVENTS, RATE_PER_S = {"fraud": 5_000, "flood": 3_000}, 300
JUDGED_WITHIN_S = 900
"""Drivers that begin beside each other take minutes for a batch on a busy machine."""
SEEDS = {"fraud": 15, "flood": 15}
SHARES = {"fraud": {"poison": 0.02}, "flood": {"poison": 0.02, "attacks": 0.2}}
"""More than usual: the traffic is short. With these seeds it has every kind that the tests here need."""
REFUSED = {
    "fraud": {"json", "missing", "type", "range", "pattern", "duplicate", "unknown", "card-number"},
    "flood": {"json", "missing", "type", "range", "pattern"},
}
"""More kinds than these are sent; which ones depends on the seed. The scenarios have all of them."""


@dataclass(frozen=True)
class Ran:
    """A variant that was deployed, had its traffic, and was judged."""

    target: Target
    variant: Variant
    validation: Validation


@dataclass(frozen=True)
class Again:
    """What a teardown left of a variant, and its verdict after the next deploy."""

    up_after_teardown: list[str]
    drivers_after_teardown: list[str]
    up_after_deploy: set[str]
    archives_after_deploy: list[str]
    """That the driver's JVM maps, beside Java's own."""
    validation: Validation


@dataclass
class Runs:
    """Runs of the variants of one use at a time: most of what one takes is waiting, but all at once are too much."""

    target: Target
    use: str = ""
    found: dict[str, Ran | Exception] = field(default_factory=dict)

    def of(self, name: str) -> Ran:
        if load(name).use.name != self.use:
            self.end()
            self.use = load(name).use.name
            # Before any traffic: the first deploy in a new home archives the drivers' classes, and they stand still.
            failed = {
                name: error
                for name, error in self.each(lambda name: deployed(self.target, name)).items()
                if isinstance(error, Exception)
            }
            self.found = self.each(lambda name: failed.get(name) or run_of(self.target, load(name)))
        if isinstance(found := self.found[name], Exception):
            raise found
        return found

    def end(self) -> None:
        self.each(lambda name: teardown(self.target, name, data=True))

    def each(self, act: Callable[[str], Any]) -> dict[str, Any]:
        """What comes of it for each variant of the use, at the same time."""
        own = [name for name in VARIANTS if load(name).use.name == self.use]
        with ThreadPoolExecutor() as pool:
            acts = {name: pool.submit(act, name) for name in own}
            return {name: each.exception() or each.result() for name, each in acts.items()}


@pytest.fixture(scope="module")
def runs(stack: Settings) -> Iterator[Runs]:
    runs = Runs(Target.read(stack, {}))
    yield runs
    runs.end()


@pytest.fixture(scope="module", params=VARIANTS)
def ran(request: pytest.FixtureRequest, runs: Runs) -> Ran:
    """Of every use in turn."""
    return runs.of(request.param)


@pytest.fixture(scope="module", params=FRAUDS)
def fraud(request: pytest.FixtureRequest, runs: Runs) -> Ran:
    return runs.of(request.param)


def deployed(target: Target, name: str) -> None:
    provision(target, name)
    deploy(target, name, report=print)


def run_of(target: Target, variant: Variant) -> Ran:
    use = variant.use
    made, seed = traffic.declared(use), SEEDS.get(use.name, 1)
    plan = plan_for(made, EVENTS[use.name], RATE_PER_S, seed, name=f"{variant.name}-t", **SHARES.get(use.name, {}))
    secrets = traffic.secrets_of(target.settings, use)
    with ThreadPoolExecutor() as pool:
        sent = pool.submit(sending.send, target.bootstrap, topics_of(variant), traffic.generated(use, plan, secrets))
        if variant.name in KILLED:
            kill_at_work(target, variant)
            deploy(target, variant.name, report=print)
        traffic.keep(target.settings, variant.name, sent.result())
    return Ran(target, variant, validated(target, variant.name))


def validated(target: Target, name: str) -> Validation:
    return validate(target, name, within_s=JUDGED_WITHIN_S, settled_after_s=SETTLED_AFTER_S, report=print)


def kill_at_work(target: Target, variant: Variant) -> None:
    """Kill the driver of Spark once it has judged a part of the traffic."""
    judged: list[Record] = []
    with closing(Tail(target.bootstrap, {"enriched": variant.topic("enriched")})) as tail:

        def is_at_work() -> bool:
            judged.extend(tail.new())
            return len(judged) >= KILLED_AFTER

        assert processes.wait_until(is_at_work, within_s=600), len(judged)
    processes.kill(processes.records(target.settings.run)[f"job-{variant.name}-spark"])


def second_life(run: Ran) -> Again:
    target, name = run.target, run.variant.name
    teardown(target, name)
    up = [engine for engine, (_, job) in deployments.jobs(target, name).items() if job.is_up]
    drivers = [
        record.name
        for record in processes.records(target.settings.run).values()
        if record.name == f"job-{name}-spark" and processes.alive(record)
    ]
    deploy(target, name, report=print)
    up_again = {engine for engine, (_, job) in deployments.jobs(target, name).items() if job.is_up}
    driver = processes.records(target.settings.run)[f"job-{name}-spark"]
    mapped: list[str] = []
    for process in processes.family(driver):
        with suppress(psutil.NoSuchProcess):  # the driver starts short-lived ones
            mapped += [each.path for each in process.memory_maps()]
    archives = [path for path in mapped if path.startswith(str(target.settings.home / "archives"))]
    return Again(up, drivers, up_again, archives, validated(target, name))


def test_the_verdict_is_ok(ran: Ran) -> None:
    assert not problems(ran.validation.verdict)


def test_every_rule_alerted_and_every_kind_of_refusal_was_met(ran: Ran) -> None:
    verdict = ran.validation.verdict
    assert set(verdict.alerts_by_rule) == {r.name for r in (*ran.variant.event_rules, *ran.variant.window_rules)}
    met = {reason.partition(":")[0] for reason in verdict.dead_letters_by_reason}
    assert met >= REFUSED.get(ran.variant.use.name, set())


def test_bad_input_restarted_nothing(ran: Ran) -> None:
    jobs = deployments.jobs(ran.target, ran.variant.name)
    assert jobs
    assert {engine: job.restarts for engine, (_, job) in jobs.items()} == dict.fromkeys(jobs, 0)


def test_the_verdict_is_kept_as_a_record_and_as_a_page(ran: Ran) -> None:
    record = json.loads(ran.validation.record.read_text(encoding="utf-8"))
    assert record["figures"]["status"] == ran.validation.verdict.status
    assert {latency["name"] for latency in record["figures"]["latencies"]} >= {"bare hop", "alerts from intended send"}
    assert "<html" in ran.validation.page.read_text(encoding="utf-8")
    assert deployments.verdict_file(ran.target, ran.variant.name).read_text() == ran.validation.record.name


def test_a_second_provision_and_deploy_change_nothing(ran: Ran) -> None:
    assert pending(provision(ran.target, ran.variant.name)) == []
    assert pending(deploy(ran.target, ran.variant.name)) == []


def test_a_job_that_runs_does_not_lose_its_state_to_a_fresh_start(ran: Ran) -> None:
    with pytest.raises(EngineError, match=f"runs; `millrace teardown {ran.variant.name}` first"):
        deploy(ran.target, ran.variant.name, fresh=True)


def test_a_contract_that_would_break_is_refused_before_anything_changes(fraud: Ran) -> None:
    topic = fraud.variant.topic(fraud.variant.use.judged)
    agreed = contracts_of(fraud.variant.use)[fraud.variant.use.judged.name]
    older = json.loads(json.dumps(agreed))
    older["properties"]["terminal"] = {"type": "string"}
    topics.keep_contracts(fraud.target.bootstrap, {topic: older})
    try:
        with pytest.raises(ContractError, match=rf"{topic}: .*'terminal' is gone"):
            provision(fraud.target, fraud.variant.name)
    finally:
        topics.keep_contracts(fraud.target.bootstrap, {topic: agreed})


def test_a_customer_is_one_row_and_one_short_scan(fraud: Ran) -> None:
    with closing(Tail(fraud.target.bootstrap, {"enriched": fraud.variant.topic("enriched")})) as tail:
        events = [json.loads(record.value or b"{}") for record in tail.new()]
    chosen = max(events, key=lambda event: len(event["flags"]))["customer"]
    own = {event["transaction_id"]: event for event in events if event["customer"] == chosen}
    found = show.show_called(fraud.target, fraud.variant, fraud.variant.use.table("customers"), chosen, last=3)
    latest = sorted(own.values(), key=lambda event: (-event["at_ms"], event["transaction_id"]))[:3]
    assert [each["transaction_id"] for each in found["transactions"]] == [each["transaction_id"] for each in latest]
    assert found["highest_cents"] == max(event["amount_cents"] for event in own.values())
    assert sum(found["alerts"].values()) >= max(len(event["flags"]) for event in own.values())


def test_a_refused_message_is_accepted_when_it_is_replayed_after_the_cause_was_mended(fraud: Ran) -> None:
    target, variant = fraud.target, fraud.variant
    refused = letters.read(target, variant, "unknown:merchants")
    assert refused
    originals = [json.loads(_decoded(letter)) for letter in refused]
    known = [{"merchant": event["merchant"], "category": "books", "place": "Hamburg"} for event in originals]
    merchants = variant.topic("merchants")
    topics.publish(target.bootstrap, ((merchants, m["merchant"].encode(), json.dumps(m).encode()) for m in known))
    assert letters.replay(target, variant, refused, {}).sent == len(refused)
    assert letters.read(target, variant, "unknown:merchants") == []
    wanted = {event["transaction_id"] for event in originals}
    with closing(Tail(target.bootstrap, {"enriched": variant.topic("enriched")})) as tail:
        seen: set[str] = set()

        def is_back() -> bool:
            seen.update(json.loads(record.value or b"{}")["transaction_id"] for record in tail.new())
            return wanted <= seen

        assert processes.wait_until(is_back, within_s=60), wanted - seen


def test_reference_data_is_sent_again_only_as_it_was_mended(fraud: Ran) -> None:
    target, variant, reason = fraud.target, fraud.variant, "missing:category"
    refused = letters.read(target, variant, reason)
    assert refused
    assert letters.replay(target, variant, refused, {}).sent == 0
    assert letters.read(target, variant, reason) == refused
    good = json.dumps({"merchant": "mended", "category": "books", "place": "Ulm"}).encode()
    assert letters.replay(target, variant, refused, dict.fromkeys((x.place for x in refused), good)).sent == len(
        refused
    )
    assert letters.read(target, variant, reason) == []


def test_what_came_with_a_card_number_is_sent_again_only_as_it_was_mended(fraud: Ran) -> None:
    target, variant = fraud.target, fraud.variant
    refused = letters.read(target, variant, "card-number")
    assert refused
    assert not [letter for letter in refused if invented_cards_in(_decoded(letter))]
    with pytest.raises(InfraError, match=r"hold a card number .* cannot be sent again unchanged; .* --with FILE"):
        letters.replay(target, variant, refused, {})
    assert letters.read(target, variant, "card-number") == refused


def test_no_card_number_is_in_any_topic_file_table_checkpoint_or_log_but_the_one_that_was_planted(runs: Runs) -> None:
    ran = [runs.of(name) for name in FRAUDS]
    use, state = ran[0].variant.use, runs.target.settings.state
    kinds = {each.name for each in (*use.raw, *use.references)}

    def topic_of(path: Path) -> str:
        return path.parent.name.rpartition("-")[0]

    planted = state / "logs" / "planted.log"
    planted.write_text(f"paid with {invented_card(7)}\n", encoding="utf-8")
    try:
        found = {path: cards for path, written in contents(state) if (cards := invented_cards_in(written))}
    finally:
        planted.unlink()
    leaks = {str(path): cards for path, cards in found.items() if topic_of(path).partition(".")[2] not in kinds}
    hdfs = runs.target.hdfs
    for each in ran:
        own = {each.variant.topic(kind) for kind in kinds}
        assert {card for path, cards in found.items() if topic_of(path) in own for card in cards} == {NUMBER}
        folder = runs.target.folder(each.variant)
        for file in hdfs.files(folder):
            if is_data_file(file.path, folder):
                text = json.dumps(pq.read_table(io.BytesIO(hdfs.read(file.path))).to_pylist()).encode()
                leaks |= {file.path: cards} if (cards := invented_cards_in(text)) else {}
    assert leaks == {str(planted): {invented_card(7)}}


def test_teardown_leaves_no_job_and_the_next_deploy_continues_from_its_state(runs: Runs) -> None:
    """Of a pattern with a job in each of two engines, which also persists."""
    ran = runs.of("streams-spark")
    again = second_life(ran)
    assert (again.up_after_teardown, again.drivers_after_teardown) == ([], [])
    assert again.up_after_deploy == deployments.deployed(ran.target, ran.variant.name).keys()
    assert again.archives_after_deploy, "the first deploy archives the classes, the next driver maps them"
    assert not problems(again.validation.verdict)


def _decoded(letter: letters.Letter) -> bytes:
    return base64.b64decode(letter.value_base64 or "")
