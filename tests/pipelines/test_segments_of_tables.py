"""Tables in segments: the rows that messages touch, and slice by slice all others; a spoilt row is red once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from millrace.rules.layout import NOTHING_FORGOTTEN, Forgotten, Mark, mark_row, puts
from millrace.traffic import plan_for
from millrace.verify import Evidence, Question, Versions
from millrace.verify.ledger import state as states
from millrace.verify.ledger.segments import Segment
from millrace.verify.ledger.step import Cells, Limits, UnreadError
from pipelines.fraud import FRAUD
from pipelines.fraud.traffic import TRAFFIC
from tests.pipelines.pretend import QUESTION, START_MS, messages, ran, topics
from tests.pipelines.segmented import NEVER_MS, Ledger, figures, wrong
from tests.pipelines.test_segments import live

PLAN = plan_for(TRAFFIC, 400, 20, seed=3, name="p", customers=30, frauds=0.1, edges=0.1, races=0.02)
ASKED = replace(QUESTION, stores=("hbase",))
LIMITS = Limits(outstanding_ms=30_000, grace_ms=15_000, audited_rows=150)
EVERY_MS = 10_000
CUTS_MS = range(START_MS, START_MS + 250_000, EVERY_MS)
CALM_MS = START_MS + 100_000
"""From then on nothing is written."""
BOUND_MS = 100_000
"""A round of the audit takes 4 segments; then a row waits for 30 seconds, and for the reading after it."""
Content = dict[str, dict[bytes, dict[bytes, bytes]]]
Spoiling = Callable[[Content, "Chosen"], object]


class Tables:
    """The tables as they are when a segment is judged: behind its cut, or ahead of it."""

    def __init__(self, evidence: Evidence, after_ms: int) -> None:
        self.records = {kind: evidence.outputs[kind] or () for kind in ("enriched", "alerts")}
        self.messages = {
            kind: [(each.ingest_ms, json.loads(each.value or b"")) for each in own]
            for kind, own in self.records.items()
        }
        self.after_ms, self.cut_ms = after_ms, 0
        self.spoilings: list[tuple[int, Spoiling]] = []
        self.chosen: Any = None
        self.shown: Any = None
        self.away: set[str] = set()
        self.marks = NOTHING_FORGOTTEN
        self.read: list[int] = []
        """How many rows were read, by request."""

    def at(self, cut_ms: int) -> None:
        """Show what they held when the segment with this cut was judged."""
        self.cut_ms = cut_ms
        self.content = self.written()
        for since_ms, spoil in self.spoilings:
            if cut_ms >= since_ms:
                spoil(self.content, self.chosen)

    def written(self) -> Content:
        own = {
            kind: [event for at_ms, event in own if at_ms <= self.cut_ms + self.after_ms]
            for kind, own in self.messages.items()
        }
        shown = (len(own["enriched"]), len(own["alerts"]), self.marks)
        if shown != self.shown:
            self.shown, self.cells = shown, self.put(own)
        return {table: {row: dict(cells) for row, cells in rows.items()} for table, rows in self.cells.items()}

    def put(self, own: Mapping[str, Sequence[Any]]) -> Content:
        found: Content = {table.name: {} for table in FRAUD.tables}
        newest: dict[tuple[str, bytes, bytes], int] = {}
        for put in puts(FRAUD, own["enriched"], own["alerts"], self.marks):
            for column, cell in put.cells.items():
                if (put.timestamp or 0) >= newest.get((put.table, put.row, column), 0):
                    newest[put.table, put.row, column] = put.timestamp or 0
                    found[put.table].setdefault(put.row, {})[column] = cell
        return found

    def _answer(self, name: str) -> None:
        if name in self.away:
            raise UnreadError("HBase does not answer")

    def forgotten(self) -> Forgotten:
        self._answer("forgotten")
        return self.marks

    def rows(self, table: str, rows: Sequence[bytes]) -> Mapping[bytes, Cells]:
        self._answer("rows")
        self.read.append(len(rows))
        return {row: self.content[table][row] for row in rows if row in self.content[table]}

    def scan(self, table: str, start: bytes, stop: bytes, limit: int | None) -> Sequence[tuple[bytes, Cells]]:
        self._answer("scan")
        found = sorted(
            each for each in self.content[table].items() if start <= each[0] and (not stop or each[0] < stop)
        )
        self.read.append(len(found[:limit]))
        return found[:limit]

    def now(self) -> tuple[int, Mapping[str, Mapping[int, int]]]:
        at_ms = self.cut_ms + max(self.after_ms, 0)
        ends: dict[str, dict[int, int]] = {kind: {} for kind in self.records}
        for kind, records in self.records.items():
            for each in records:
                if each.ingest_ms <= at_ms:
                    ends[kind][each.partition] = each.offset + 1
        return at_ms, ends


@pytest.fixture(scope="module")
def good() -> Evidence:
    return live(ran(PLAN, topics(messages(PLAN))))


@pytest.fixture(scope="module")
def chosen(good: Evidence) -> Chosen:
    return Chosen(good)


def opened(evidence: Evidence, after_ms: int = 0, limits: Limits = LIMITS, asked: Question = ASKED) -> Ledger:
    ledger = Ledger(asked, evidence, limits)
    ledger.tables = Tables(evidence, after_ms)
    return ledger


def spoilt(ledger: Ledger, chosen: Chosen, since_ms: int, spoil: Spoiling) -> Ledger:
    """From this cut on the tables are spoilt."""
    tables_of(ledger).chosen = chosen
    tables_of(ledger).spoilings.append((since_ms, spoil))
    return ledger


def tables_of(ledger: Ledger) -> Tables:
    assert isinstance(ledger.tables, Tables)
    return ledger.tables


def through(ledger: Ledger, cuts_ms: Sequence[int] = CUTS_MS) -> list[Segment]:
    for cut_ms in cuts_ms:
        tables_of(ledger).at(cut_ms)
        ledger.to(cut_ms)
    return ledger.segments


def red(segments: Sequence[Segment]) -> list[tuple[int, str, tuple[str, ...]]]:
    return [
        (segment.cut_ms, check.name, (check.why, *check.offenders) if check.why else check.offenders)
        for segment in segments
        for check in segment.checks
        if check.status != "ok"
    ]


@pytest.mark.parametrize("after_ms", [-15_000, 0, 35_000])
def test_right_tables_are_ok_whether_they_are_behind_the_cut_or_ahead_of_it(good: Evidence, after_ms: int) -> None:
    ledger = opened(good, after_ms)
    segments = through(ledger)
    assert wrong(segments) == {}
    assert segments[-1].pending["rows of tables"] == 0
    found = figures(segments)
    for table in FRAUD.tables:
        assert found[f"table of {table.name}"]["rows"] >= len(tables_of(ledger).content[table.name])
        assert found[f"table of {table.name}"]["rounds"] > 3


class Chosen:
    """A row and an alert of the tables as they are in the end."""

    def __init__(self, evidence: Evidence) -> None:
        tables = Tables(evidence, 0)
        tables.at(NEVER_MS)
        self.purchase = sorted(tables.content["transactions"])[7]
        customers = tables.content["customers"]
        alerts = {row: sorted(each for each in customers[row] if each.startswith(b"a:")) for row in customers}
        self.customer = next(row for row, own in alerts.items() if len(own) > 1)
        self.alert = alerts[self.customer][0]


def put(table: str, column: bytes, cell: bytes) -> Spoiling:
    """Alter a cell, as soon as its row is there."""

    def spoil(content: Content, chosen: Chosen) -> None:
        row = chosen.purchase if table == "transactions" else chosen.customer
        if row in content[table]:
            content[table][row][column] = cell

    return spoil


def written_otherwise(content: Content, row: bytes) -> None:
    if row in content["transactions"]:
        content["transactions"][row][b"t:amount_cents"] += b" "


def empty(rows: dict[bytes, Any], of: bytes) -> None:
    """Remove the rows of a customer."""
    for row in [row for row in rows if row.split(b"|")[0] == of.split(b"|")[0]]:
        del rows[row]


SPOILINGS: dict[str, tuple[str, Spoiling]] = {
    "an amount": ("transactions", put("transactions", b"t:amount_cents", b"1")),
    "a flag": ("transactions", put("transactions", b"t:flags", b'["x"]')),
    "a damaged cell": ("transactions", put("transactions", b"t:amount_cents", b"{")),
    "a column more": ("transactions", put("transactions", b"t:x", b"1")),
    "a column more that holds null": ("transactions", put("transactions", b"t:x", b"null")),
    "a number as no writer writes it": ("transactions", lambda c, chosen: written_otherwise(c, chosen.purchase)),
    "a real number that is too large": ("transactions", put("transactions", b"t:phone_latitude", b"9" * 400)),
    "a row that is gone": ("transactions", lambda c, chosen: c["transactions"].pop(chosen.purchase, None)),
    "all rows of a customer are gone": ("transactions", lambda c, chosen: empty(c["transactions"], chosen.purchase)),
    "a row that nobody wrote": ("transactions", lambda c, _: c["transactions"].update({b"zoe|1|t": {b"t:x": b"1"}})),
    "one more row of a customer": (
        "transactions",
        lambda c, chosen: c["transactions"].update({chosen.purchase + b"0": {b"t:amount_cents": b"1"}}),
    ),
    "a maximum that is larger": ("customers", put("customers", b"s:highest_cents", b"999999999")),
    "a maximum that is less": ("customers", put("customers", b"s:highest_cents", b"1")),
    "a maximum that is no number": ("customers", put("customers", b"s:highest_cents", b"x")),
    "another phone": ("customers", put("customers", b"s:phone", b'{"at_ms": 1}')),
    "a customer's row that is gone": ("customers", lambda c, chosen: c["customers"].pop(chosen.customer, None)),
    "a customer that nobody knows": ("customers", lambda c, _: c["customers"].update({b"zoe": {b"s:phone": b"{}"}})),
    "an alert that is gone": (
        "customers",
        lambda c, chosen: c["customers"].get(chosen.customer, {}).pop(chosen.alert, None),
    ),
    "an alert of another time": (
        "customers",
        lambda c, chosen: c["customers"].get(chosen.customer, {}).update({chosen.alert: b"1"}),
    ),
    "an alert that nobody raised": ("customers", put("customers", b"a:spree|0", b"1")),
    "a column that is none": ("customers", put("customers", b"s:x", b"1")),
}


@pytest.fixture(scope="module")
def calm(good: Evidence) -> Ledger:
    """A ledger that has judged all traffic."""
    ledger = opened(good, after_ms=15_000)
    assert wrong(through(ledger, range(START_MS, CALM_MS, EVERY_MS))) == {}
    return ledger


@pytest.mark.parametrize("name", SPOILINGS)
def test_a_spoilt_row_turns_one_segment_red_within_the_bound(
    good: Evidence, calm: Ledger, chosen: Chosen, name: str
) -> None:
    table, spoil = SPOILINGS[name]
    ledger = calm.again()
    ledger.tables = Tables(good, after_ms=15_000)
    spoilt(ledger, chosen, CALM_MS, spoil)
    ((cut_ms, check, offenders),) = red(through(ledger, range(CALM_MS, CALM_MS + 2 * BOUND_MS, EVERY_MS)))
    assert (check, len(offenders)) == (f"table of {table}", 1)
    assert cut_ms <= CALM_MS + BOUND_MS


def test_a_cell_that_is_spoilt_alike_after_its_repair_is_red_again(
    good: Evidence, calm: Ledger, chosen: Chosen
) -> None:
    ledger = calm.again()
    ledger.tables = Tables(good, after_ms=15_000)
    _, alter = SPOILINGS["a maximum that is less"]

    def spoil(content: Content, chosen: Chosen) -> None:
        if not CALM_MS + BOUND_MS <= tables_of(ledger).cut_ms < CALM_MS + 2 * BOUND_MS:
            alter(content, chosen)

    spoilt(ledger, chosen, CALM_MS, spoil)
    found = red(through(ledger, range(CALM_MS, CALM_MS + 3 * BOUND_MS, EVERY_MS)))
    assert [name for _, name, _ in found] == ["table of customers"] * 2


@pytest.mark.parametrize("name", ["an amount", "a row that is gone", "a maximum that is less", "an alert that is gone"])
def test_a_row_that_is_spoilt_under_traffic_turns_one_segment_red(good: Evidence, chosen: Chosen, name: str) -> None:
    table, spoil = SPOILINGS[name]
    ledger = spoilt(opened(good, after_ms=15_000), chosen, START_MS + 15_000, spoil)
    ((_, check, offenders),) = red(through(ledger))
    assert (check, len(offenders)) == (f"table of {table}", 1)


@pytest.mark.parametrize(("after_ms", "every_ms"), [(0, EVERY_MS), (-20_000, EVERY_MS), (-20_000, 17_000)])
def test_a_row_that_stays_as_an_earlier_message_left_it_is_red_once(
    good: Evidence, chosen: Chosen, after_ms: int, every_ms: int
) -> None:
    first: dict[bytes, bytes] = {}

    def stay(content: Content, chosen: Chosen) -> None:
        if (row := content["customers"].get(chosen.customer)) is not None:
            first.update({} if first else row)
            content["customers"][chosen.customer] = dict(first)

    ledger = spoilt(opened(good, after_ms), chosen, START_MS, stay)
    ((_, check, offenders),) = red(through(ledger, range(START_MS, START_MS + 250_000, every_ms)))
    assert (check, len(offenders)) == ("table of customers", 1)


@settings(max_examples=15, phases=(Phase.explicit, Phase.generate))
@given(
    name=st.sampled_from(sorted(SPOILINGS)),
    after_ms=st.integers(-20_000, 40_000),
    waits_ms=st.lists(st.integers(1_000, 20_000), min_size=10, max_size=30),
    audited=st.integers(10, 400),
)
# Before the second reading, the limit of the first message is over; the row then shows that one, and not yet the later.
@example("another phone", -20_000, [9_033, 4_319, 1_234, 1_506, 16_711, 16_772, 3_713, 20_000, 1_249, 2_021], 206)
def test_a_spoilt_row_is_red_once_wherever_the_run_is_cut(
    good: Evidence, chosen: Chosen, name: str, after_ms: int, waits_ms: list[int], audited: int
) -> None:
    ledger = opened(good, after_ms, replace(LIMITS, audited_rows=audited))
    spoilt(ledger, chosen, CALM_MS, SPOILINGS[name][1])
    cuts_ms = [START_MS]
    while cuts_ms[-1] < CALM_MS:
        cuts_ms.append(cuts_ms[-1] + waits_ms[len(cuts_ms) % len(waits_ms)])
    # With one row in each segment, a round takes as many segments as there are rows.
    rounds = 2 + 400 // audited
    cuts_ms += [cuts_ms[-1] + EVERY_MS * n for n in range(1, rounds + 2 * BOUND_MS // EVERY_MS)]
    found = red(through(ledger, cuts_ms))
    assert [each[1] for each in found] == [f"table of {SPOILINGS[name][0]}"]


def test_every_row_is_compared_within_as_many_segments_as_its_table_has_slices(good: Evidence) -> None:
    limits = replace(LIMITS, audited_rows=40)
    ledger = opened(good, limits=limits)
    through(ledger, range(START_MS, CALM_MS, EVERY_MS))
    rows = len(tables_of(ledger).content["customers"])
    before = ledger.state.tables["customers"].rounds
    bound = -(-rows // limits.audited_rows)
    through(ledger, range(CALM_MS, CALM_MS + 2 * bound * EVERY_MS, EVERY_MS))
    assert ledger.state.tables["customers"].rounds >= before + 2


def test_what_is_read_and_remembered_does_not_grow_with_the_rows_of_events() -> None:
    """A customer's rows are read together, and there are a hundred customers however many purchases."""
    sizes, reads = [], []
    for events in (800, 2_400):
        plan = replace(PLAN, events=events)
        evidence = live(ran(plan, topics(messages(plan))))
        ledger = opened(evidence, limits=replace(LIMITS, copies_ms=20_000, rows_most=300))
        through(ledger, range(START_MS, START_MS + 300_000, EVERY_MS))
        sizes.append(sum(len(line) for line in states.lines(ledger.state) if b"transactions" in line[:24]))
        reads.append(max(tables_of(ledger).read))
    assert sizes[1] < 1.2 * sizes[0]
    assert max(reads) <= 301


def test_while_more_rows_wait_than_may_be_read_a_table_is_not_ok(good: Evidence) -> None:
    segments = through(opened(good, limits=replace(LIMITS, rows_most=20)))
    found = red(segments)
    assert {why for _, _, (why, *_) in found if "rows still wait to be read" not in why} == set()
    assert {each.status for each in segments} == {"ok", "unknown"}


def test_a_validator_that_was_killed_continues_with_the_same_tables(good: Evidence) -> None:
    first = opened(good, after_ms=15_000)
    other = first.again()
    for cut_ms in CUTS_MS:
        tables_of(first).at(cut_ms)
        first.to(cut_ms)
        other.to(cut_ms)
        assert states.digest_of(states.lines(first.state)) == states.digest_of(states.lines(other.state))
        other = other.again()


@pytest.mark.parametrize("away", ["forgotten", "rows", "scan"])
def test_a_store_that_does_not_answer_is_unknown_and_gets_its_time_again(good: Evidence, away: str) -> None:
    ledger = opened(good)
    for cut_ms in CUTS_MS:
        is_away = START_MS + 10_000 < cut_ms < CALM_MS + 30_000
        tables_of(ledger).away = {away} if is_away else set()
        tables_of(ledger).at(cut_ms)
        found = ledger.to(cut_ms)
        assert found.status == ("unknown" if is_away else "ok"), cut_ms
    assert ledger.segments[-1].pending["rows of tables"] == 0


def test_a_row_that_comes_after_it_was_missed_is_red_once(good: Evidence) -> None:
    ledger = opened(good)

    def empty(content: Content, _: Chosen) -> None:
        if tables_of(ledger).cut_ms < CALM_MS + 50_000:
            content["transactions"].clear()

    tables_of(ledger).spoilings.append((START_MS, empty))
    found = red(through(ledger))
    offenders = [each for _, name, own in found for each in own if name == "table of transactions"]
    assert all(each.startswith("missing: ") for each in offenders)
    assert max(cut_ms for cut_ms, *_ in found) < CALM_MS + 50_000
    assert ledger.segments[-1].status == "ok"


def test_a_ledger_that_begins_later_takes_over_what_is_there_and_finds_what_is_spoilt_then(
    good: Evidence, chosen: Chosen
) -> None:
    ledger = opened(good)
    ledger.tables = None
    ledger.to(START_MS + 10_000)
    ledger.tables = Tables(good, 0)
    table, spoil = SPOILINGS["an amount"]
    spoilt(ledger, chosen, CALM_MS + 50_000, spoil)
    segments = through(ledger, range(START_MS + 20_000, CALM_MS + 2 * BOUND_MS, EVERY_MS))
    first, *more = red(segments)
    assert "the audit takes over what is there" in str(first[2])
    assert first[0] == START_MS + 20_000
    assert more[0][0] == START_MS + 20_000, "both tables, in the same segment"
    ((cut_ms, name, _),) = more[1:]
    assert (name, cut_ms > CALM_MS + 50_000) == (f"table of {table}", True)


def test_a_forgotten_key_is_no_fault_and_red_if_it_is_still_there(good: Evidence) -> None:
    customer = json.loads((good.outputs["enriched"] or ())[0].value or b"")["customer"]
    marks = Forgotten({mark_row("customer", customer): Mark(CALM_MS + 5_000, 1)})
    for is_gone in (True, False):
        ledger = opened(good)
        for cut_ms in CUTS_MS:
            is_forgotten = cut_ms >= CALM_MS + 5_000
            tables_of(ledger).marks = marks if is_forgotten and is_gone else NOTHING_FORGOTTEN
            tables_of(ledger).at(cut_ms)
            tables_of(ledger).marks = marks if is_forgotten else NOTHING_FORGOTTEN
            ledger.to(cut_ms)
        found = red(ledger.segments)
        assert {name for _, name, _ in found} == (set() if is_gone else {f"table of {t.name}" for t in FRAUD.tables})


def test_a_key_that_is_forgotten_until_a_moment_to_come_is_red_once(good: Evidence) -> None:
    customer = json.loads((good.outputs["enriched"] or ())[0].value or b"")["customer"]
    ledger = opened(good)
    for cut_ms in CUTS_MS:
        if cut_ms >= CALM_MS + 5_000:
            tables_of(ledger).marks = Forgotten({mark_row("customer", customer): Mark(CALM_MS + 10**8, 1)})
        tables_of(ledger).at(cut_ms)
        ledger.to(cut_ms)
    found = [text for _, _, text in red(ledger.segments) if "still to come" in str(text)]
    assert len(found) == len(FRAUD.tables)


@pytest.mark.parametrize(
    ("until_ms", "times", "complaint"),
    [(None, 0, "now no more"), (CALM_MS - 100_000, 2, "now until"), (CALM_MS + 5_000, 0, "is forgotten 0 times")],
)
def test_a_mark_that_goes_or_is_set_back_is_red_once(
    good: Evidence, until_ms: int | None, times: int, complaint: str
) -> None:
    customer = json.loads((good.outputs["enriched"] or ())[0].value or b"")["customer"]
    mark = mark_row("customer", customer)
    ledger = opened(good)
    for cut_ms in CUTS_MS:
        # Once more from another machine, and then spoilt.
        marks = {mark: Mark(CALM_MS + 5_000, 1) if cut_ms < CALM_MS + 40_000 else Mark(CALM_MS + 4_000, 2)}
        if cut_ms >= CALM_MS + 80_000:
            marks = {} if until_ms is None else {mark: Mark(until_ms, times)}
        written = Forgotten({mark: Mark(CALM_MS + 5_000, 1)} if cut_ms >= CALM_MS + 5_000 else {})
        tables_of(ledger).marks = written
        tables_of(ledger).at(cut_ms)
        tables_of(ledger).marks = Forgotten(marks) if cut_ms >= CALM_MS + 5_000 else written
        ledger.to(cut_ms)
    found = [(cut_ms, text) for cut_ms, _, text in red(ledger.segments) if complaint in str(text)]
    assert {cut_ms for cut_ms, _ in found} == {CALM_MS + 80_000}
    assert min(cut_ms for cut_ms, _, _ in red(ledger.segments)) == CALM_MS + 80_000, "until then all is well"
    assert len(found) == len(FRAUD.tables)


@pytest.mark.parametrize("away", [True, False])
def test_rows_are_not_taken_over_in_silence_because_of_a_mark_that_came_too_late(
    good: Evidence, chosen: Chosen, away: bool
) -> None:
    customer = json.loads((good.outputs["enriched"] or ())[0].value or b"")["customer"]
    marks = Forgotten({mark_row("customer", customer): Mark(CALM_MS + 5_000, 1)})
    ledger = opened(good)
    for cut_ms in CUTS_MS:
        tables_of(ledger).marks = marks if cut_ms >= CALM_MS + 30_000 and away else NOTHING_FORGOTTEN
        tables_of(ledger).away = {"forgotten"} if away and CALM_MS < cut_ms < CALM_MS + 30_000 else set()
        tables_of(ledger).at(cut_ms)
        tables_of(ledger).marks = marks if cut_ms >= CALM_MS + 30_000 else NOTHING_FORGOTTEN
        ledger.to(cut_ms)
    found = [(cut_ms, why[0]) for cut_ms, _, why in red(ledger.segments) if "could not be read" not in why[0]]
    assert {cut_ms for cut_ms, _ in found} == (set() if away else {CALM_MS + 30_000})
    assert all("is taken over" in why for _, why in found)


def test_what_a_table_holds_from_before_its_present_version_is_taken_over(good: Evidence) -> None:
    changed = Versions((("0", START_MS + 10_000),))
    asked = replace(ASKED, in_force={f"table of {table.name}": changed for table in FRAUD.tables})
    segments = through(opened(good, asked=asked))
    assert {cut_ms for cut_ms, *_ in red(segments)} == {START_MS}
    assert {each.status for each in segments} == {"ok", "unknown"}


def test_a_table_of_another_declaration_is_unknown_in_one_segment(good: Evidence) -> None:
    ledger = opened(good)
    through(ledger, range(START_MS, CALM_MS, EVERY_MS))
    tables: Any = [replace(each, alerts=False) if each.alerts else each for each in FRAUD.tables]
    ledger.question = replace(ASKED, use=replace(FRAUD, tables=tuple(tables)))
    ((_, name, (why,)),) = red(through(ledger, range(CALM_MS, CALM_MS + 100_000, EVERY_MS)))
    assert (name, "is declared otherwise" in why) == ("table of customers", True)
