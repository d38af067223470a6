"""What is judged with one segment, as the checks of a whole run read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from millrace.oracle import Finding, Origin, Record
from millrace.rules import WindowRule, WindowSummary, alert_id
from millrace.rules.outputs import INGEST_MS
from millrace.verify.case import Case, Question, RowKey, Rows
from millrace.verify.evidence import Event, Evidence, Read
from millrace.verify.expected import Expected
from millrace.verify.ledger.state import Counted, State


class SegmentCase(Case):
    """What is judged with one segment, as the checks of a whole run read it."""

    is_whole = False

    def __init__(
        self,
        question: Question,
        evidence: Evidence,
        outputs: Mapping[str, Read],
        expected: Expected,
        state: State,
        races_before: Mapping[str, int],
    ) -> None:
        self.question, self.evidence, self.expected = question, evidence, expected
        self.raw = {kind: () if records is None else records for kind, records in evidence.raw.items()}
        self.outputs = dict(outputs)
        since = self._other_limits()
        self.unread = [f"messages from before {since}, which the pattern judged by other limits"] if since else []
        self.counted, self.seen_ms, self.is_assumed = state.counted, state.oracle.seen_ms, bool(state.assumed)
        self.ids_since_ms = state.cut_ms - question.use.judged.past_ms
        """The ids of all events from then on are remembered."""
        self.whole_since_ms = max(state.whole_since.values(), default=0)
        """Of events from then on all fields are known that windows read."""
        self.ends, self.arrived_ms = state.read_to, state.arrived_ms
        self.replayable: set[Origin] = set()
        """Of the messages that are marked as replayed: those with a dead letter, or too old to know."""
        self.found: dict[str, tuple[dict[str, Finding], dict[str, Finding]]] = {}
        self.rows: dict[str, Rows] = {}
        self.parts: dict[str, dict[RowKey, list[list[Event]]]] = {}
        self.events: dict[Origin, Event] = {}
        """The events of the windows that are judged."""
        self.of_windows: dict[str, Sequence[Counted]] = {}
        """By alert of an earlier version on a window the events of its key, where none of its window is gone."""
        self.out_ms: dict[Origin, int] = {}
        self.of_late: dict[Origin, Counted] = {}
        self.again: dict[tuple[str, str], list[Finding]] = {}
        """By rule and key: findings in windows that count late events which came out twice."""
        self.unaccounted = ()  # what comes behind judged windows is known from one segment to the next
        self.known_alerts, self.undecided = (state.alerts, state.done_alerts), state.undecided
        self.unjudged_windows = Counter[str]()
        self.races_before = races_before
        self.raced: dict[str, int] = {}

    def accepted(self, origin: Origin) -> Event:
        return self.events[origin] if origin in self.events else self.expected.accepted[origin]

    def has_events(self, alert: Event) -> bool:
        """The same, as far as the ids are remembered: by key, so of an alert on a window those with its subject."""
        judged, named = self.question.use.judged, alert["event_ids"]
        if self.declares_events_otherwise or judged.id is None or self.is_assumed:
            return True
        if alert["window_start_ms"] is None:
            return all(self.seen_ms.get((alert["key"], identity), 0) for identity in named)
        if (events := self.of_windows.get(alert["alert_id"])) is not None:
            return bool(events)
        if (alert.get("ingest_ms") or 0) < self.newest_ms - judged.remembered_ms:
            return True
        rule = self.question.earlier.get((alert["rule"], alert["rule_version"]))
        if rule is not None and rule.key == judged.key and alert["window_start_ms"] >= self.ids_since_ms:
            return bool(named) and all(self.seen_ms.get((alert["key"], identity), 0) for identity in named)
        # A full list may leave out all events of its subject, and name only some whose ids are forgotten.
        own = [rule] if rule else [each for each in self.question.rules if isinstance(each, WindowRule)]
        is_full = len(named) >= min((each.ids_most for each in own), default=1)
        return is_full or any(self.seen_ms.get((alert["subject"], identity), 0) for identity in named)

    def events_of(self, alert: Event) -> Sequence[Event]:
        """The same; of single events that were judged with an earlier segment, what is remembered by id."""
        if self.declares_events_otherwise:
            return ()
        if alert["window_start_ms"] is not None:
            return [self._known(each) for each in self.of_windows.get(alert["alert_id"], ())]
        found: list[Event] = []
        for identity in ((alert["key"], each) for each in alert["event_ids"]):
            if (judged := self.expected.judged.get(identity)) is not None:
                found.append(judged.event or {})
            elif arrived_ms := self.seen_ms.get(identity, 0):
                found.append({self.question.use.judged.key: alert["key"], INGEST_MS.name: arrived_ms})
        return found

    def _known(self, each: Counted) -> Event:
        """The fields of an event that are known: those of other streams if it is judged, new ones if it came later."""
        use = self.question.use
        is_whole = each.event[use.judged.time or ""] >= self.whole_since_ms
        known = each.event.keys() - (() if each.out_ms else use.enrichment.built)
        return {name: value for name, value in each.event.items() if name in known and (is_whole or value is not None)}

    def is_alerted(self, rule: str, key: str, identity: str) -> bool:
        """The same; also where the rule changed while the event waited, so that neither version's alerts are judged."""
        versions = {self._present.get(rule), *(version for version, _ in self.versions(rule).past)}
        ids = [alert_id(rule, version, key, identity) for version in versions if version is not None]
        is_known = any(each in known for each in ids for known in self.known_alerts)
        return is_known or (rule, key, identity) in self.undecided

    def has_letter(self, origin: Origin) -> bool:
        return origin in self.replayable

    @cached_property
    def is_judged_once(self) -> bool:
        return self.question.is_once  # a copy may have come with another segment

    @cached_property
    def records(self) -> dict[Origin, Record]:
        kept = {origin: each.record for origin, each in self.of_late.items() if each.record is not None}
        return kept | {record.origin: record for records in self.raw.values() for record in records}

    @cached_property
    def behind_ms(self) -> Mapping[Origin, int]:
        own = self.of_late.items()
        return {origin: max(each.behind_ms or 0, each.surely_behind_ms, each.out_behind_ms) for origin, each in own}

    @cached_property
    def surely_behind_ms(self) -> Mapping[Origin, int]:
        is_read, own = self.question.follows_enriched, self.of_late.items()
        return {origin: max(each.surely_behind_ms, each.out_behind_ms * is_read) for origin, each in own}

    @cached_property
    def arrived_behind_ms(self) -> Mapping[Origin, int]:
        return {origin: each.surely_behind_ms for origin, each in self.of_late.items()}

    @cached_property
    def came_out_ms(self) -> dict[Origin, int]:
        found = dict(self.out_ms)
        for record, event in self.enriched:
            origin = self.source(event)
            found[origin] = max(record.ingest_ms, found.get(origin, 0))
        return found

    def resting_on_races(self, rule: WindowRule) -> Iterator[Finding]:
        """None: they are named where the windows of the late events are over."""
        return iter(())

    def windows_of(self, rule: WindowRule) -> tuple[dict[str, Finding], dict[str, Finding]]:
        return self.found[rule.name]

    def from_before(self, rule: WindowRule, key: str, start_ms: int, since_ms: int) -> Sequence[Event]:
        """None: such windows are left out where they are closed, and their alerts where they come."""
        return ()

    def before_a_restart(self, rule: WindowRule, key: str) -> Iterator[Finding]:
        yield from self.again.get((rule.name, key), ())

    def parts_of(self, summary: WindowSummary) -> dict[RowKey, list[list[Event]]]:
        return self.parts[summary.name]

    def rows_of(self, summary: WindowSummary) -> Rows:
        return self.rows[summary.name]

    @property
    def newest_ms(self) -> int:
        return max(self.arrived_ms.values(), default=0)

    def too_many_races(self, raced: int, of: str) -> list[str]:
        """The same over the last segments."""
        bounds = self.question.bounds
        self.raced[of] = raced
        judged = self.races_before.get("judged", 0) + len(self.expected.accepted)
        most = max(bounds.races_most, bounds.races_share * judged)
        total = self.races_before.get(of, 0) + raced
        if not raced or total <= most:
            return []
        return [f"{total} of {judged} events were judged in another order than they arrived in"]
