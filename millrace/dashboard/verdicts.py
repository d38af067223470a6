"""The verdict that the page shows of a pattern: of its newest record, and of the segments in its ledger.

A failed segment is followed by ok ones a minute later, between two scrapes of Prometheus. So the status is the worst
that was found within the last hour, or the last one if that is older: failed, unknown, assumed, ok. The alert clears an
hour after the last failed segment was judged. An ok record clears none of them: it may have judged other messages.
`assumed` is a status of its own, which sets off no alert.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from millrace.oracle import Record
from millrace.verify import Bounds
from millrace.verify.ledger import chain
from millrace.verify.ledger.chain import CAUSES_MOST, Entry, EntryStatus

STATUSES: tuple[EntryStatus, ...] = ("ok", "assumed", "unknown", "failed")
"""The worst last."""
RECENT_MS = 3_600_000
FINDINGS_KEPT = 200
LISTED_MOST = 5


@dataclass(frozen=True)
class Finding:
    """The status of a pattern's newest record, or of segments in a row with one status."""

    status: EntryStatus
    at_ms: int
    """When the record, or the last of the segments, was written: a segment may be judged long after its end."""
    checks: Mapping[str, str]
    since_ms: int | None = None
    """When the first of the segments began; None of a record."""
    until_ms: int | None = None
    causes: tuple[str, ...] = ()


@dataclass
class Ledger:
    """What a pattern's ledger holds, entry by entry."""

    findings: deque[Finding] = field(default_factory=lambda: deque(maxlen=FINDINGS_KEPT))
    _last: Entry | None = None

    def take(self, record: Record) -> None:
        """Read the next message; one that does not follow from the entry before is never ok."""
        until_ms = record.ingest_ms + Bounds.clocks_ms
        found = chain.read([record.value], before=self._last, is_part=True, until_ms=until_ms)
        entry = next(iter(found.entries), None)
        self._last = entry or self._last
        causes = tuple(map(str, (*found.breaks, *(entry.causes if entry else ()))))
        new = Finding(
            status=found.status,
            at_ms=record.ingest_ms,
            checks={name: str(figures.get("status", "ok")) for name, figures in entry.figures.items()} if entry else {},
            since_ms=entry.since_ms if entry else record.ingest_ms,
            until_ms=entry.cut_ms if entry else record.ingest_ms,
            causes=causes,
        )
        if self.findings and self.findings[-1].status == new.status:
            before = self.findings.pop()
            causes = tuple(dict.fromkeys((*before.causes, *new.causes)))[:CAUSES_MOST]
            new = replace(new, since_ms=before.since_ms, causes=causes)
        self.findings.append(new)


def worst(findings: Iterable[Finding], now_ms: int) -> Finding | None:
    """The worst finding of the last hour, or the last one if that is older; of equal ones the last."""
    in_order = sorted(findings, key=lambda each: each.at_ms)
    recent = [each for each in in_order if each.at_ms > now_ms - RECENT_MS] or in_order[-1:]
    return max(reversed(recent), key=lambda each: STATUSES.index(each.status), default=None)


def latest(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """The last few findings for the page, newest first, each with the first of what is wrong."""
    newest = sorted(findings, key=lambda each: each.at_ms, reverse=True)[:LISTED_MOST]
    return [{"status": each.status, "at": _moment(each.at_ms), "why": _first_cause(each)} for each in newest]


def _first_cause(finding: Finding) -> str:
    wrong = (f"{name}: {status}" for name, status in finding.checks.items() if status != "ok")
    return next(iter(finding.causes), "") or next(wrong, "")


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")


def shown(finding: Finding) -> dict[str, Any]:
    """A finding, for the page."""
    return {
        "status": finding.status,
        "at": _moment(finding.at_ms),
        "checks": finding.checks,
        "since_ms": finding.since_ms,
        "until_ms": finding.until_ms,
        "causes": finding.causes,
    }
