"""For Prometheus: the figures of the boards at `/metrics`, and at `/targets` where the engines serve their own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from millrace.dashboard.board import NOT_READ, OTHER_RULES, Board
from millrace.dashboard.latencies import ALERTS, HOP, WINDOWS, Histogram
from millrace.dashboard.verdicts import STATUSES
from millrace.verify.evidence import Bounds

LATENCIES = {ALERTS: "event", WINDOWS: "window", HOP: "hop"}


def text(boards: Mapping[str, Board], around: Mapping[str, Any]) -> bytes:
    """All figures in the text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(boards, around))
    return generate_latest(registry)


def targets(around: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Where Prometheus reads the engines' own figures, as its discovery over HTTP takes them."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for name, pattern in around.get("patterns", {}).items():
        for job in pattern["jobs"]:
            for url in job.get("metrics", ()):
                found[url].append((job["engine"], name))
    return [_target(url, jobs) for url, jobs in found.items()]


def _target(url: str, jobs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """A process that runs jobs of several patterns is of none."""
    place, (engine, name) = urlsplit(url), jobs[0]
    labels = {"__metrics_path__": place.path, "engine": engine, **({"pattern": name} if len(jobs) == 1 else {})}
    return {"targets": [place.netloc], "labels": labels}


class _Figures(Collector):
    def __init__(self, boards: Mapping[str, Board], around: Mapping[str, Any]) -> None:
        self._boards, self._around = boards, around

    def collect(self) -> Iterator[Metric]:
        is_up = self._around.get("kafka", {}).get("state") == "up"
        yield GaugeMetricFamily("millrace_kafka_up", "Whether Kafka answers.", value=float(is_up))
        if looked_ms := self._around.get("looked_ms"):
            yield GaugeMetricFamily(
                "millrace_page_looked_timestamp_seconds",
                "When the page last looked at jobs, lag and verdicts; absent until it has.",
                value=looked_ms / 1000,
            )
        yield from self._of_boards()
        yield from self._of_surroundings()

    def _of_boards(self) -> Iterator[Metric]:
        messages = CounterMetricFamily(
            "millrace_messages",
            "Messages in the topics of a pattern, by stream: raw streams, accepted, refused and windows.",
            labels=["pattern", "stream"],
        )
        events = CounterMetricFamily(
            "millrace_events", "Raw events that are accepted or refused, each one of both.", labels=["pattern"]
        )
        alerts = CounterMetricFamily(
            "millrace_alerts",
            f"Alerts, each id once; of rules that the pattern does not have under '{OTHER_RULES}', and those that the "
            f"page has only counted under '{NOT_READ}'.",
            labels=["pattern", "rule"],
        )
        letters = CounterMetricFamily(
            "millrace_dead_letters",
            "Dead letters, duplicates and late events included; those that the page has only counted are under the "
            f"reason '{NOT_READ}'.",
            labels=["pattern", "reason"],
        )
        repeated = CounterMetricFamily(
            "millrace_repeated_alerts", "Alerts with an id that was read before.", labels=["pattern"]
        )
        last_in = GaugeMetricFamily(
            "millrace_last_event_timestamp_seconds", "When the last raw event reached Kafka.", labels=["pattern"]
        )
        latencies = HistogramMetricFamily(
            "millrace_alert_latency_seconds",
            "Until an alert is in Kafka: from the intended send of its event (event), or from the end of its window "
            "(window); and the same of a plain message (hop).",
            labels=["pattern", "of"],
        )
        promised = GaugeMetricFamily(
            "millrace_promised_latency_seconds", "The p99 that the pattern promises its readers.", labels=["pattern"]
        )
        accepted = GaugeMetricFamily(
            "millrace_accepted_event_timestamp_seconds",
            "The newest moment of an accepted event, not later than its arrival.",
            labels=["pattern"],
        )
        unread = GaugeMetricFamily(
            "millrace_page_reader_lag_messages",
            "Messages of a pattern in Kafka that are in no figure of the page yet.",
            labels=["pattern"],
        )
        behind = GaugeMetricFamily(
            "millrace_windows_behind_limit_seconds",
            "How far windows may be behind the accepted events: the disorder of the use, and a minute.",
            labels=["pattern"],
        )
        for name, board in self._boards.items():
            if board.accepted_at_ms:
                accepted.add_metric([name], board.accepted_at_ms / 1000)
            if board.variant.pattern.stages.windows:
                behind.add_metric([name], (board.variant.use.disorder_ms + Bounds().overdue_ms) / 1000)
            unread.add_metric([name], board.behind)
            promised.add_metric([name], board.variant.pattern.promises.alert_latency_ms_p99 / 1000)
            for stream in (*(each.name for each in board.variant.use.raw), "accepted", "refused", "windows"):
                messages.add_metric([name, stream], board.totals[stream])
            events.add_metric([name], board.totals[board.variant.use.judged.name])
            for rule, count in sorted(board.by_rule.items()):
                alerts.add_metric([name, rule], count)
            for reason, count in sorted(board.reasons.items()):
                letters.add_metric([name, reason], count)
            repeated.add_metric([name], board.totals["repeated alerts"])
            if board.last_in_ms:
                last_in.add_metric([name], board.last_in_ms / 1000)
            for latency, of in LATENCIES.items():
                histogram = board.latencies.histograms[latency]
                latencies.add_metric([name, of], _buckets(histogram), histogram.sum_ms / 1000)
        yield from (messages, events, alerts, letters, repeated, last_in, accepted, behind, latencies, promised, unread)

    def _of_surroundings(self) -> Iterator[Metric]:
        lag = GaugeMetricFamily("millrace_lag_messages", "Messages not judged yet.", labels=["pattern"])
        deployed = GaugeMetricFamily(
            "millrace_pattern_deployed", "Whether the pattern is deployed.", labels=["pattern"]
        )
        jobs = GaugeMetricFamily(
            "millrace_job_state", "1 for the state that the job has.", labels=["pattern", "engine", "state"]
        )
        restarts = GaugeMetricFamily("millrace_job_restarts", "Restarts of the job.", labels=["pattern", "engine"])
        checkpoints = CounterMetricFamily(
            "millrace_job_checkpoints", "Checkpoints of the job since its start.", labels=["pattern", "engine"]
        )
        checkpointed = GaugeMetricFamily(
            "millrace_job_last_checkpoint_timestamp_seconds",
            "When the job completed its last checkpoint; absent until that is known.",
            labels=["pattern", "engine"],
        )
        watermark = GaugeMetricFamily(
            "millrace_job_watermark_timestamp_seconds",
            "The moment of event time that all windows of the job have reached.",
            labels=["pattern", "engine"],
        )
        verdicts = GaugeMetricFamily(
            "millrace_verdict",
            "1 for the worst status of the verdicts of the last hour, or of the latest one.",
            labels=["pattern", "status"],
        )
        judged = GaugeMetricFamily(
            "millrace_ledger_last_entry_timestamp_seconds",
            "When the newest entry of a ledger that is continued came; before the first one, the first event.",
            labels=["pattern"],
        )
        silence = GaugeMetricFamily(
            "millrace_canary_silence_seconds",
            "How long ago canaries last set off the rule, in the partition where that is longest ago.",
            labels=["pattern", "rule"],
        )
        limit = GaugeMetricFamily(
            "millrace_canary_silence_limit_seconds",
            "How long a rule may be silent: two rounds of canaries.",
            labels=["pattern"],
        )
        took = GaugeMetricFamily(
            "millrace_canary_latency_seconds",
            "How long the newest alerts of canaries took: from the intended send, or from the end of their window.",
            labels=["pattern", "rule"],
        )
        for name, found in self._around.get("patterns", {}).items():
            if found["canaries"]:
                limit.add_metric([name], found["canaries"]["limit_s"])
            for rule in (found["canaries"] or {}).get("rules", ()):
                if rule["silent_s"] is not None:
                    silence.add_metric([name, rule["rule"]], rule["silent_s"])
                if rule["latency_ms"] is not None:
                    took.add_metric([name, rule["rule"]], rule["latency_ms"] / 1000)
            deployed.add_metric([name], float(found["is_deployed"]))
            if found["lag"] is not None:
                lag.add_metric([name], found["lag"])
            for job in found["jobs"]:
                jobs.add_metric([name, job["engine"], job["state"]], 1)
                restarts.add_metric([name, job["engine"]], job.get("restarts", 0))
                checkpoints.add_metric([name, job["engine"]], job["checkpoints"])
                if job.get("checkpointed_ms"):
                    checkpointed.add_metric([name, job["engine"]], job["checkpointed_ms"] / 1000)
                if job.get("watermark_ms"):
                    watermark.add_metric([name, job["engine"]], job["watermark_ms"] / 1000)
            if found["judged_ms"]:
                judged.add_metric([name], found["judged_ms"] / 1000)
            if found["verdict"]:
                for status in STATUSES:
                    verdicts.add_metric([name, status], float(found["verdict"]["status"] == status))
        yield from (deployed, lag, jobs, restarts, checkpoints, checkpointed, watermark)
        yield from (verdicts, judged, silence, limit, took)


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    total, found = 0, []
    for most_ms, count in zip((*histogram.bounds_ms, None), histogram.counts, strict=True):
        total += count
        found.append(("+Inf" if most_ms is None else str(most_ms / 1000), float(total)))
    return found
