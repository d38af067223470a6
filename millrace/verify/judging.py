"""The verdict on one run of a pattern: every check that the evidence allows, and `unknown` for all others."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from millrace.oracle import Record
from millrace.patterns.loss import Loss
from millrace.rules import ENRICHMENT, REPLAYED, Rule, UseCase, WindowRule, WindowSummary
from millrace.verify import correctness, delivery, stores
from millrace.verify.evidence import Bounds, Event, Evidence, Identity, Origin, Read, Versions, identity_of, read
from millrace.verify.expected import Expected, expect
from millrace.verify.latency import Latency, latency
from millrace.verify.verdict import OFFENDERS_MOST, Check, Figure, Promise, Verdict, checked, unchecked

FROM_SENT, FROM_INGEST, HOP = "alerts from intended send", "alerts from ingest", "bare hop"
RECEIVED, HOP_RECEIVED = "alerts from intended send to a reader", "bare hop to a reader"
PROMISED = "alerts as promised, once warm"
ENRICHED_FROM_SENT, WINDOWS_FROM_END = "enriched from intended send", "window alerts after the window's end"
ALERT_FIELDS = ("alert_id", "rule", "rule_version", "key", "customer", "transaction_ids", "operands", "at_ms")
LETTER_FIELDS = ("reason", "topic", "partition", "offset", "ingest_ms")
ENRICHED_FIELDS = ("source_topic", "source_partition", "source_offset")


@dataclass(frozen=True)
class Question:
    """What is to be judged: which rules, summaries and stores a pattern has, and what it promises."""

    pattern: str
    use: UseCase
    rules: Sequence[Rule]
    summaries: Sequence[WindowSummary] = ()
    stores: Sequence[str] = ()
    promises: Mapping[str, float] | None = None
    warm_after_ms: int = 0
    """For how long nothing is promised after traffic began."""
    began_ms: Sequence[int] = ()
    """When each tape of traffic began; empty if nobody knows, then it was with the first alert."""
    kept_since_ms: int = 0
    """Of what came before, dead letters may have been deleted, and reference data that was sent again compacted."""
    bounds: Bounds = field(default_factory=Bounds)
    in_force: Mapping[str, Versions] = field(default_factory=dict)
    """Rules and summaries that once meant something else, those that are gone among them."""
    lost: Sequence[Loss] = ()
    """What was deleted before an engine read it, and accepted as lost."""


def judge(asked: Question, evidence: Evidence) -> Verdict:
    """Compares what came out of a pattern with what must have come out."""
    case = _Case(asked, evidence)
    checks = tuple(case.checks())
    latencies = tuple(case.latencies())
    return Verdict(
        pattern=asked.pattern,
        checks=checks,
        promises=tuple(_promises(asked.promises or {}, latencies)),
        latencies=latencies,
        alerts_by_rule={rule: tuple(sorted(times)) for rule, times in sorted(case.first_alerts().items())},
        dead_letters_by_reason=dict(Counter(reason for _, reason in case.letters).most_common()),
    )


class _Case:
    """The evidence read, and the checks made on it one after the other."""

    def __init__(self, asked: Question, evidence: Evidence) -> None:
        self.asked, self.evidence = asked, evidence
        use = asked.use
        wanted = [*(each.name for each in use.raw), *(each.name for each in use.references)]
        self.raw: dict[str, Sequence[Record]] = {kind: evidence.raw.get(kind) or () for kind in wanted}
        self.unread = [kind for kind in wanted if evidence.raw.get(kind) is None]
        self.unread += [f"the first {kind}, older than what the pattern retains" for kind in evidence.deleted]
        if asked.lost:
            self.unread.append("messages that were deleted before they were read (see the check 'loss')")
        self.enriched = _read(evidence.enriched, ENRICHED_FIELDS)
        self.alerts = _read(evidence.alerts, ALERT_FIELDS)
        self.dead_letters = _read(evidence.dead_letters, LETTER_FIELDS)
        self.windows = _read(evidence.windows, ("summary", "window_start_ms"))
        self.copies: dict[Origin, list[Event]] = defaultdict(list)
        first_ms: dict[Origin, int] = {}
        self.came_out_ms: dict[Identity, int] = {}
        """When each event last came out."""
        for record, event in self.enriched.events:
            origin = evidence.origin(event["source_topic"], event["source_partition"], event["source_offset"])
            self.copies[origin].append(event)
            first_ms[origin] = min(record.ingest_ms, first_ms.get(origin, record.ingest_ms))
            identity = identity_of(use.judged, event)
            self.came_out_ms[identity] = max(record.ingest_ms, self.came_out_ms.get(identity, 0))
        changes = sorted((force.since_ms, name) for name, force in asked.in_force.items())
        unjudged = {
            origin: {each for since_ms, name in changes if since_ms > at_ms for each in self.means(name)}
            for origin, at_ms in first_ms.items()
        }
        self.letters = {
            (evidence.origin(letter["topic"], letter["partition"], letter["offset"]), letter["reason"]): letter
            for _, letter in self.dead_letters.events
            if letter["reason"] != REPLAYED
        }
        self.late = {origin for origin, reason in self.letters if reason == delivery.LATE}
        self.expected: Expected = expect(
            use, asked.rules, self.raw, self.copies, asked.bounds, unjudged, asked.kept_since_ms
        )

    def checks(self) -> Iterator[Check]:
        asked, use, expected = self.asked, self.asked.use, self.expected
        judged = self.raw[use.judged.name]
        if asked.lost:
            yield self.loss()
        yield self.something_to_judge()
        yield self.readable()
        yield self.given(
            "conservation",
            ("enriched", "dead letters"),
            lambda: delivery.conservation(judged, self.copies, self.letters, len(self.enriched.events)),
        )
        yield self.given(
            "refusals",
            ("dead letters",),
            lambda: delivery.refusals(use, self.raw, expected, self.letters, asked.kept_since_ms),
        )
        yield self.given("enrichment", ("enriched",), lambda: delivery.contents(expected, self.copies))
        yield self.given(
            "lateness",
            ("dead letters",),
            lambda: delivery.lateness(use, judged, expected, self.letters, asked.bounds),
        )
        for rule in asked.rules:
            needed = ("alerts", "dead letters") if isinstance(rule, WindowRule) else ("alerts",)
            yield self.given(f"alerts: {rule.name}", needed, partial(self.alerts_of, rule))
        yield self.given(
            "alert ids",
            ("alerts",),
            lambda: correctness.identities(asked.rules, self.alerts.events, asked.in_force),
        )
        if self.evidence.labels is not None:
            labels = self.evidence.labels
            yield self.given(
                "labels",
                ("alerts",),
                lambda: correctness.labelled(labels, asked.rules, self.alerts.events, asked.in_force),
            )
        for summary in asked.summaries:
            yield self.given(
                f"numbers: {summary.name}",
                ("windows", "dead letters"),
                partial(
                    correctness.summaries,
                    summary,
                    self.windows.events,
                    expected,
                    self.late,
                    asked.bounds,
                    self.force(summary.name).since_ms,
                ),
            )
        yield from self.store_checks()

    def store_checks(self) -> Iterator[Check]:
        accepted, copies = self.expected.accepted, self.copies
        if "hdfs" in self.asked.stores:
            rows = self.evidence.parquet
            yield self.given("files", ("files",), lambda: stores.parquet(accepted, copies, rows or ()))
        if "hbase" in self.asked.stores:
            transactions, customers = self.evidence.table_transactions, self.evidence.table_customers
            yield self.given(
                "table of transactions",
                ("table of transactions",),
                lambda: stores.table_transactions(accepted, copies, transactions or {}),
            )
            yield self.given(
                "table of customers",
                ("table of customers", "alerts"),
                lambda: stores.table_customers(
                    accepted, copies, (alert for _, alert in self.alerts.events), customers or {}
                ),
            )

    def given(self, name: str, needed: Sequence[str], check: Callable[[], Check]) -> Check:
        """The check, if there is what it looks at."""
        absent = [each for each in needed if self._present()[each] is None]
        absent += self.unread
        if absent:
            return unchecked(name, f"Is {name} as it must be?", f"could not be read: {', '.join(absent)}")
        return check()

    def something_to_judge(self) -> Check:
        asks = "Was there anything to judge?"
        raw = self.raw[self.asked.use.judged.name]
        if self.unread or not raw:
            why = f"could not be read: {', '.join(self.unread)}" if self.unread else "the raw topic is empty"
            return unchecked("substance", asks, why)
        figures: dict[str, Figure] = {kind: len(records) for kind, records in self.raw.items()}
        figures |= {"accepted": len(self.expected.accepted), "per-event findings": len(self.expected.findings)}
        if not self.expected.accepted:
            return unchecked("substance", asks, "not one event was good")
        return checked("substance", asks, figures, ())

    def loss(self) -> Check:
        """What was lost, by place: nothing that came out since can be called right or wrong."""
        lost = [f"{loss.offsets} of {loss}" for loss in self.asked.lost]
        # Two queries may have lost the same messages.
        gone = {(loss.topic, loss.topic_id, loss.partition): 0 for loss in self.asked.lost}
        for loss in self.asked.lost:
            place = loss.topic, loss.topic_id, loss.partition
            gone[place] = max(gone[place], loss.messages or 0)
        figures: dict[str, Figure] = {
            "gaps": len(lost),
            "messages at least": sum(gone.values()),
            "offenders": len(lost),
        }
        why = "accepted with `millrace deploy --accept-loss`; what the jobs remember may lack these messages"
        asks = "Was every message read before it was deleted?"
        return Check("loss", asks, "unknown", figures, tuple(lost[:OFFENDERS_MOST]), why)

    def readable(self) -> Check:
        outputs = (self.enriched, self.alerts, self.dead_letters, self.windows)
        figures: dict[str, Figure] = {"messages": sum(len(each.events) for each in outputs)}
        offenders = [place for each in outputs for place in each.unreadable]
        return checked("readable", "Can everything be read that came out?", figures, offenders, is_final=True)

    def alerts_of(self, rule: Rule) -> Check:
        found = correctness.findings_of_rule(
            rule, self.expected, self.late, self.asked.bounds, self.force(rule.name), self.came_out_ms
        )
        check = correctness.alerts_of_rule(self.asked.use, rule, self.alerts.events, self.expected, found)
        if check.status == "ok" and found.may and not found.must:
            why = "all windows may still be open: let later events, or the traffic's closing, come first"
            return unchecked(check.name, check.asks, why)
        return check

    def means(self, name: str) -> Collection[str]:
        """The flags and fields of an enriched event that are as one version of something says."""
        return self.asked.use.enrichment.names if name == ENRICHMENT else (name,)

    def force(self, name: str) -> Versions:
        """Since when a rule or summary means what it means."""
        return self.asked.in_force.get(name, Versions())

    def first_alerts(self) -> dict[str, list[int]]:
        """When each alert first reached the topic, by rule."""
        times: dict[str, list[int]] = defaultdict(list)
        for rule, arrived_ms, _ in self._firsts():
            times[rule].append(arrived_ms)
        return times

    def latencies(self) -> Iterator[Latency]:
        """How long alerts took; the bare hop beside them."""
        per_event = {rule.name for rule in self.asked.rules if not isinstance(rule, WindowRule)}
        gaps = {rule.name: rule.window.gap_ms for rule in self.asked.rules if isinstance(rule, WindowRule)}
        events = [(arrived_ms, alert) for rule, arrived_ms, alert in self._firsts() if rule in per_event]
        timed = [(at, alert) for at, alert in events if alert.get("sent_ms") is not None]
        yield latency(FROM_SENT, (at - alert["sent_ms"] for at, alert in timed))
        yield latency(FROM_INGEST, (at - alert["ingest_ms"] for at, alert in events if "ingest_ms" in alert))
        ends = ((at, alert["at_ms"] + gaps[rule]) for rule, at, alert in self._firsts() if rule in gaps)
        yield latency(WINDOWS_FROM_END, (at - end for at, end in ends))
        first: dict[Identity, tuple[int, Event]] = {}
        for record, event in self.enriched.events:
            first.setdefault(identity_of(self.asked.use.judged, event), (record.ingest_ms, event))
        sent = ((at, event["sent_ms"]) for at, event in first.values() if event.get("sent_ms") is not None)
        yield latency(ENRICHED_FROM_SENT, (at - sent_ms for at, sent_ms in sent))
        yield latency(HOP, self.evidence.hop_ms or ())
        received = self.evidence.received_ms or {}
        heard = [(received[alert["alert_id"]], alert) for _, alert in timed if alert["alert_id"] in received]
        yield latency(RECEIVED, (at - alert["sent_ms"] for at, alert in heard))
        yield latency(HOP_RECEIVED, self.evidence.hop_received_ms or ())
        # To the reader's hands, if a reader was listening all the time; else to the topic.
        promised = heard if len(heard) >= 0.9 * len(timed) else timed
        began_ms = self.asked.began_ms or [min((alert["sent_ms"] for _, alert in timed), default=0)]

        def is_warm(sent_ms: int) -> bool:
            return not any(0 <= sent_ms - each < self.asked.warm_after_ms for each in began_ms)

        yield latency(PROMISED, (at - alert["sent_ms"] for at, alert in promised if is_warm(alert["sent_ms"])))

    def _firsts(self) -> Iterator[tuple[str, int, Event]]:
        seen: dict[str, tuple[int, Event]] = {}
        for record, alert in self.alerts.events:
            known = seen.get(alert["alert_id"])
            if known is None or record.ingest_ms < known[0]:
                seen[alert["alert_id"]] = record.ingest_ms, alert
        for arrived_ms, alert in seen.values():
            yield alert["rule"], arrived_ms, alert

    def _present(self) -> dict[str, object]:
        evidence = self.evidence
        return {
            "enriched": evidence.enriched,
            "alerts": evidence.alerts,
            "dead letters": evidence.dead_letters,
            "windows": evidence.windows,
            "files": evidence.parquet,
            "table of transactions": evidence.table_transactions,
            "table of customers": evidence.table_customers,
        }


def _read(records: Sequence[Record] | None, needed: Sequence[str]) -> Read:
    return read(records or (), needed)


def _promises(promised: Mapping[str, float], latencies: Sequence[Latency]) -> Iterator[Promise]:
    by_name = {each.name: each for each in latencies}
    for name, limit in promised.items():
        measured = by_name[PROMISED].quantile(0.99) if name == "alert_latency_ms_p99" else None
        yield Promise(
            name, limit, measured, "unknown" if measured is None else "kept" if measured <= limit else "broken"
        )
