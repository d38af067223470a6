"""A pretended engine: what a right pipeline would have written for some traffic, so that tests can spoil it."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from millrace import oracle
from millrace.oracle import Finding, Record
from millrace.rules import ALERTS, DEAD_LETTERS, Rule, UseCase, WindowRule
from millrace.rules.outputs import WINDOWS_TOPIC
from millrace.traffic import CLOSING, Message, TrafficPlan
from millrace.traffic.labels import Labels, labels_of
from millrace.traffic.planned import CLOSING_MS, KEYS, REFERENCES_MS, RULES, Content, partition_of
from millrace.traffic.runs import Run
from millrace.traffic.tokens import secrets_under
from millrace.verbs.sending import closing_keys
from millrace.verify import Evidence, Question
from millrace.verify.evidence import ENRICHED
from pipelines.fraud import FRAUD
from pipelines.fraud.traffic import TRAFFIC

START_MS = 1_790_000_000_000
SECRETS = secrets_under(FRAUD, b"a key for tests, not for customers")
PARTITIONS = 2
CLOSERS = closing_keys(lambda number: f"closing-{number}", PARTITIONS)
QUESTION = Question("pretended", FRAUD, FRAUD.rules, FRAUD.summaries, ("hdfs", "hbase"), {"alert_latency_ms_p99": 100})
KINDS = {f"pretended.{kind.name}": kind.name for kind in (*FRAUD.raw, *FRAUD.references)}
RAW = [kind.name for kind in FRAUD.raw]
HOURS_MS = 3_600_000


def messages(plan: TrafficPlan) -> list[Message]:
    """All that a sender would send: references, traffic and its closing."""
    return [
        *TRAFFIC.references(plan, CLOSERS),
        *TRAFFIC.messages(plan, SECRETS, START_MS),
        *TRAFFIC.closing(plan, SECRETS, START_MS, CLOSERS, 20_000),
    ]


def short_run(plan: TrafficPlan) -> Evidence:
    """What ten seconds of a plan leave behind, without the merchants at whom nobody buys."""
    short = replace(plan, events=200, sizes={**plan.sizes, "customers": 40})
    sent = messages(short)
    purchases = b"".join(each.value or b"" for each in sent if each.topic == "transactions")
    kept = (each for each in sent if each.topic != "merchants" or each.label.refusal or (each.key or b"") in purchases)
    return ran(short, topics(kept))


def recorded(plan: TrafficPlan, raw: Mapping[str, Sequence[Record]], **changed: Any) -> Run:
    """The record that the sender of these topics leaves, but for what is changed."""
    content, sent = Content(), messages(plan)
    deque(content.of(sent), maxlen=0)
    run = Run(
        about={"plan": asdict(plan), RULES: {rule.name: rule.version for rule in FRAUD.rules}}
        | {KEYS: CLOSERS, CLOSING_MS: 20_000, REFERENCES_MS: START_MS - 50_000},
        start_ms=START_MS,
        sent=sum(each.label.kind not in ("reference", CLOSING) and each.topic in RAW for each in sent),
        by_topic={kind: len(raw[kind]) for kind in RAW},
        seconds=plan.due_ms(plan.events) / 1000,
        rate_per_s=plan.rate_per_s,
        behind_ms={},
        is_complete=True,
        until_ms=START_MS + sent[-1].due_ms,
        content=content.hex,
    )
    return replace(run, **changed)


def topics(sent: Iterable[Message], partitions: int = PARTITIONS) -> dict[str, list[Record]]:
    """The raw topics after the sending; each message took 3 ms."""
    found: dict[str, list[Record]] = {kind: [] for kind in KINDS.values()}
    offsets: Counter[tuple[str, int]] = Counter()
    is_reference = {reference.name for reference in FRAUD.references}
    for message in sent:
        partition = 0 if message.topic in is_reference else partition_of(message.key or b"", partitions)
        offset = offsets[message.topic, partition]
        offsets[message.topic, partition] += 1
        ingest_ms = START_MS + message.due_ms + (-60_000 if message.topic in is_reference else 3)
        found[message.topic].append(Record(message.topic, partition, offset, ingest_ms, message.key, message.value))
    return found


def ran(plan: TrafficPlan, raw: Mapping[str, Sequence[Record]], rules: Sequence[Rule] = FRAUD.rules) -> Evidence:
    """What a pipeline with these rules would have left behind, had it run on these topics."""
    known: dict[str, dict[str, oracle.Event]] = {reference.name: {} for reference in FRAUD.references}
    tape = sorted((r for kind in FRAUD.raw for r in raw[kind.name]), key=lambda r: (r.ingest_ms, r.topic, r.offset))
    enriched, alerts, letters = [], [], []
    for reference in FRAUD.references:
        for record in raw[reference.name]:
            if (reason := oracle.refer(reference, known[reference.name], record)) is not None:
                letters.append(letter(record, reason))
    for each in oracle.judge(FRAUD, rules, tape, known):
        if each.reason is not None:
            letters.append(letter(each.record, each.reason))
        elif each.record.topic == "transactions" and each.event is not None:
            enriched.append(each.event | {"source_topic": f"pretended.{each.record.topic}"})
            sent_ms, ingest_ms = each.event["sent_ms"], each.record.ingest_ms
            alerts += [alert(finding, sent_ms, ingest_ms, ingest_ms + 9) for finding in each.findings]
    for rule in rules:
        if isinstance(rule, WindowRule):
            found = oracle.window_findings(rule, enriched)
            alerts += [window_alert(f, rule, among_of(f, enriched)) for f in found]
    rows = summary_rows(enriched)
    return Evidence(
        raw=raw,
        outputs={
            "enriched": records("enriched", enriched, [event["ingest_ms"] + 8 for event in enriched]),
            "alerts": records("alerts", alerts, [each["emit_ms"] for each in alerts]),
            "dead-letters": records("dead-letters", letters, [each["ingest_ms"] + 8 for each in letters]),
            "windows": records("windows", rows, [START_MS + HOURS_MS] * len(rows)),
        },
        stores={
            "files": enriched,
            "table of transactions": transactions_table(enriched),
            "table of customers": customers_table(enriched, alerts),
        },
        hop_ms=[3.0] * 100,
        labels=labels(plan),
        kinds=KINDS,
    )


def labels(plan: TrafficPlan) -> Labels:
    """What each event was made to set off."""
    span_ms = (START_MS, START_MS + plan.due_ms(plan.events) + 20_000)
    return labels_of(FRAUD, TRAFFIC.messages(plan, SECRETS, START_MS), span_ms)


def alert(finding: Finding, sent_ms: int, ingest_ms: int, emit_ms: int, version: str = "") -> dict[str, Any]:
    # A broken rule must not give itself away by its version: it passes for the right one.
    version = version or FRAUD.rule(finding.rule).version
    return {
        "alert_id": replace(finding, rule_version=version).alert_id,
        "rule": finding.rule,
        "rule_version": version,
        "key": finding.key,
        "subject": finding.subject,
        "window_start_ms": finding.window_start_ms,
        "event_ids": list(finding.event_ids),
        "operands": {name: None if value is None else str(value) for name, value in finding.operands.items()},
        "at_ms": finding.at_ms,
        "sent_ms": sent_ms,
        "ingest_ms": ingest_ms,
        "emit_ms": emit_ms,
    }


def among_of(finding: Finding, enriched: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The enriched events of a window."""
    places = {(partition, offset) for _, partition, offset in finding.origins}
    return [event for event in enriched if (event["source_partition"], event["source_offset"]) in places]


def window_alert(
    finding: Finding, rule: WindowRule, among: Sequence[Mapping[str, Any]], version: str = ""
) -> dict[str, Any]:
    """An alert on a window with these events, a while after their last."""
    sent_ms, ingest_ms = (max(event[name] for event in among) for name in ("sent_ms", "ingest_ms"))
    return alert(finding, sent_ms, ingest_ms, ingest_ms + rule.window.closes_after_ms + 5_000, version)


def summary_rows(enriched: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of all summaries, written at the end."""
    emit_ms = START_MS + HOURS_MS
    return [
        {"summary": s.name, "window_start_ms": key[0], "window_end_ms": s.window.end_ms(key[0], key[0])}
        | {**dict(zip(s.keys, key[1:], strict=True)), **numbers, "emit_ms": emit_ms}
        for s in FRAUD.summaries
        for key, numbers in oracle.summary_rows(s, enriched).items()
    ]


def letter(record: Record, reason: str) -> dict[str, Any]:
    kind = next(each for each in (*FRAUD.raw, *FRAUD.references) if each.name == record.topic)
    return {
        "reason": reason,
        "topic": f"pretended.{record.topic}",
        "partition": record.partition,
        "offset": record.offset,
        "ingest_ms": record.ingest_ms,
        "stage": "events",
        "value_base64": oracle.value_base64(kind, record.value, reason),
    }


def records(kind: str, events: Sequence[Mapping[str, Any]], arrived_ms: Sequence[int]) -> list[Record]:
    """Events as the messages of an output topic."""
    return [
        Record(kind, 0, offset, at_ms, key_of(FRAUD, kind, event), json.dumps(event).encode())
        for offset, (event, at_ms) in enumerate(zip(events, arrived_ms, strict=True))
    ]


def key_of(use: UseCase, kind: str, event: Mapping[str, Any]) -> bytes:
    """The key of a message of an output topic."""
    if kind == WINDOWS_TOPIC:
        summary = next(each for each in use.summaries if each.name == event["summary"])
        return "|".join(str(event[name]) for name in ("window_start_ms", *summary.keys)).encode()
    columns = {ENRICHED: use.enriched.key, ALERTS.name: ALERTS.key, DEAD_LETTERS.name: DEAD_LETTERS.key}
    return str(event[columns[kind]]).encode()


def transactions_table(enriched: Iterable[Mapping[str, Any]]) -> dict[bytes, dict[bytes, bytes]]:
    return {
        f"{e['customer']}|{2**63 - 1 - e['at_ms']:019d}|{e['transaction_id']}".encode(): {
            f"t:{name}".encode(): (value if isinstance(value, str) else json.dumps(value)).encode()
            for name, value in e.items()
            if value is not None
        }
        for e in enriched
    }


def customers_table(
    enriched: Iterable[Mapping[str, Any]], alerts: Iterable[Mapping[str, Any]]
) -> dict[bytes, dict[bytes, bytes]]:
    rows: dict[bytes, dict[bytes, bytes]] = {}
    for e in sorted(enriched, key=lambda e: (e["ingest_ms"], e["source_partition"], e["source_offset"])):
        row = rows.setdefault(e["customer"].encode(), {})
        highest = max(e["amount_cents"], int(row.get(b"s:highest_cents", b"0")))
        row[b"s:highest_cents"] = str(highest).encode()
        if e["phone_at_ms"] is not None:
            phone = {name: e[f"phone_{name}"] for name in ("latitude", "longitude", "at_ms")}
            row[b"s:phone"] = json.dumps(phone).encode()
    for each in alerts:
        rows[each["subject"].encode()][f"a:{each['rule']}|{each['alert_id']}".encode()] = str(each["at_ms"]).encode()
    return rows
