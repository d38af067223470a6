"""The chain of a ledger: what it shows, and what breaks it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import pytest

from millrace.cli.printing import print_json
from millrace.cli.verdicts import as_data, is_well, print_chains
from millrace.dashboard import verdicts
from millrace.oracle import Record
from millrace.patterns.contracts import verdicts_schema
from millrace.verify.ledger import chain, spoiling
from millrace.verify.ledger.chain import Entry, entry_of, unjudged, verdict_of
from millrace.verify.ledger.segments import Segment
from millrace.verify.verdict import checked, unchecked

MINUTE_MS = 60_000
OK = checked("conservation", "?", {"raw": 3, "copies": 0}, [])
RED = checked("conservation", "?", {"raw": 3}, ["transactions[0]@7 is neither enriched nor a dead letter"])
OPEN = unchecked("enrichment", "?", "could not be read")


def segment(number: int, *checks: Any) -> Segment:
    others = [
        checked(name, "?", {}, []) for name in ("conservation", "enrichment") if name not in {c.name for c in checks}
    ]
    own = (*checks, *others) if checks else ()
    return Segment(number, number * MINUTE_MS, (number + 1) * MINUTE_MS, own, 3, {"events": 0}, MINUTE_MS)


def ledger(*checks: Any, assumed: str = "") -> list[Entry]:
    entries: list[Entry] = []
    for number, check in enumerate(checks):
        before = entries[-1] if entries else None
        offsets = {"t": {"0": (3 * number, 3 * number + 3)}}
        entries.append(entry_of(segment(number, check), offsets, {}, f"state {number}", before, assumed))
    return entries


def messages(entries: Sequence[Entry]) -> list[bytes]:
    return [entry.to_json().encode() for entry in entries]


def test_segments_in_a_row_with_one_verdict_are_one_span() -> None:
    found = chain.read(messages(ledger(OK, OK, RED, OPEN, OK)))
    assert found.breaks == ()
    assert [(span.status, span.entries) for span in found.spans()] == [
        ("ok", 2),
        ("failed", 1),
        ("unknown", 1),
        ("ok", 1),
    ]
    assert found.spans()[1].causes == ("conservation: transactions[0]@7 is neither enriched nor a dead letter",)
    assert found.spans()[2].causes == ("enrichment: could not be read",)
    assert found.status == "failed"
    assert chain.read(messages(ledger(OK, OK))).status == "ok"


def test_an_empty_ledger_is_unknown() -> None:
    assert chain.read([]).status == "unknown"


def test_what_rests_on_a_memory_with_gaps_is_assumed_and_never_ok() -> None:
    (entry,) = ledger(OK, assumed="7 messages were deleted")
    assert (entry.status, entry.causes) == ("assumed", ("7 messages were deleted",))
    assert ledger(RED, assumed="7 messages were deleted")[0].status == "failed"
    assert chain.read(messages([entry])).status == "assumed"


@pytest.mark.parametrize(
    ("change", "breaks"),
    [
        (lambda own: own.pop(1), ["entry 3 does not carry the digest of entry 1: one of them was altered"]),
        (lambda own: own.pop(0), ["the chain begins with entry 2, not with the first"]),
        (lambda own: own.insert(1, b"{}"), ["message 1 is no entry of a ledger: b'{}'"]),
        (lambda own: own.insert(3, b"\xff"), ["message 3 is no entry of a ledger: b'\\xff'"]),
        (lambda own: own.append(own[-1]), ["entry 3 does not carry the digest of entry 3: one of them was altered"]),
    ],
)
def test_an_altered_chain_is_broken_where_it_was_altered(change: Any, breaks: list[str]) -> None:
    own = messages(ledger(OK, OK, OK))
    change(own)
    found = chain.read(own)
    assert list(found.breaks) == breaks
    assert found.status == "unknown"


@pytest.mark.parametrize(
    ("changed", "breaks"),
    [
        ({"offsets": {"t": {"0": (9, 12)}}}, ["entry 3 begins at offset 9 of t[0], entry 2 ended at 6"]),
        ({"offsets": {"t": {"0": (0, 12)}}}, ["entry 3 begins at offset 0 of t[0], entry 2 ended at 6"]),
        ({"offsets": {"t": {"0": (6, 5)}}}, ["entry 3 ends before an offset at which it begins", "counts 3 messages"]),
        ({"offsets": {}}, ["entry 3 counts 3 messages, which its offsets do not hold", "lacks the offsets of t[0]"]),
        ({"messages": -4}, ["entry 3 counts -4 messages, which its offsets do not hold"]),
        ({"messages": 10**6}, ["entry 3 counts 1000000 messages, which its offsets do not hold"]),
        ({"cut_ms": 0}, ["entry 3 ends at 0, before it begins", "judged what arrived until 60000, and ends at 0"]),
        ({"whole_until_ms": 10**9}, ["entry 3 judged what arrived until 1000000000, and ends at 180000"]),
        ({"causes": ()}, ["entry 3 is failed, and its causes are []"]),
        ({"figures": {"conservation": {"status": "failed"}}}, ["entry 3 lacks the checks enrichment of entry 2"]),
        ({"figures": {"conservation": {"offenders": 1}, "enrichment": {}}}, ["by what its", "has 1 offenders of the"]),
        ({"status": "ok"}, ["entry 3 is ok, but by what its checks counted it is failed", "and its causes are ["]),
        ({"status": "assumed"}, ["entry 3 is assumed, but by what its checks counted it is failed"]),
        ({"figures": {}}, ["entry 3 is failed, but by what its checks counted it is unknown"]),
    ],
)
def test_a_newest_entry_that_contradicts_itself_is_a_break(changed: dict[str, Any], breaks: list[str]) -> None:
    """No later entry carries its digest yet."""
    *own, last = ledger(OK, OK, RED)
    found = chain.read(messages([*own, replace(last, **changed)]))
    assert len(found.breaks) == len(breaks)
    assert all(part in each for part, each in zip(breaks, found.breaks, strict=True))


def test_a_name_that_is_twice_in_an_entry_is_a_break() -> None:
    first, second = messages(ledger(OK, OK))
    assert len(chain.read([first, b'{"status":"failed",' + second[1:]]).breaks) == 1


def test_an_entry_behind_a_lost_state_may_read_again() -> None:
    first, second = ledger(OK, OK)
    again = unjudged(segment(1), {"t": {"0": (0, 6)}}, ["the state is missing"], "state", first)
    assert chain.read(messages([first, again])).breaks == ()
    assert chain.read(messages([first, second])).breaks == ()


@pytest.mark.parametrize("name", [each.name for each in fields(Entry) if each.name != "before"])
def test_each_field_of_an_entry_is_part_of_its_digest(name: str) -> None:
    first, second, third = ledger(OK, RED, OK)
    altered = json.loads(second.to_json())
    altered[name] = spoiling._other(name, altered[name])
    found = chain.read([*messages([first]), json.dumps(altered).encode(), *messages([third])])
    assert found.breaks != ()
    assert len(found.entries) == 3


@pytest.mark.parametrize(
    "changed",
    [
        {"number": 0},
        {"number": True},
        {"cut_ms": 10**30},
        {"since_ms": -(10**30)},
        {"whole_until_ms": "1"},
        {"status": "okay"},
        {"offsets": {"t": {"x": [0, 3]}}},
        {"offsets": {"t": {"0": [0]}}},
        {"offsets": {"t": {"0": [-1, 3]}}},
        {"messages": 1.5},
        {"figures": {"conservation": {"status": []}}},
        {"figures": {"conservation": {"raw": float("inf")}}},
        {"causes": [1]},
        {"causes": [[1]]},
        {"causes": ["\ud800"]},
        {"pending": []},
        {"versions": None},
        {"state": 1},
    ],
)
def test_an_entry_of_another_shape_is_a_named_break_wherever_the_chain_is_shown(
    changed: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads(ledger(RED)[0].to_json()) | changed
    altered = json.dumps(content).encode()
    found = chain.read([altered])
    assert [each.startswith("message 0 is no entry of a ledger: ") for each in found.breaks] == [True]
    assert (found.entries, found.status, found.spans()) == ((), "unknown", [])
    print_chains({"p": found})
    print_json("verdicts", patterns={"p": as_data(found, ())})
    assert "is no entry of a ledger" in capsys.readouterr().out
    assert verdict_of("p", found.entries, found.breaks, 1).status == "unknown"
    page = verdicts.Ledger()
    page.take(Record("verdicts", 0, 0, MINUTE_MS, b"p", altered))
    (shown,) = (verdicts.shown(each) for each in page.findings)
    assert (shown["status"], "is no entry of a ledger" in shown["causes"][0]) == ("unknown", True)


def test_an_entry_is_the_same_when_it_is_read_back() -> None:
    (entry,) = ledger(OK)
    assert Entry.from_json(entry.to_json()) == entry
    assert Entry.from_json(entry.to_json()).digest == entry.digest


def test_a_segment_that_could_not_be_judged_is_unknown_and_names_the_cause() -> None:
    (first,) = ledger(OK)
    entry = unjudged(segment(1, RED), {"t": {"0": (3, 6)}}, ["the state is missing"], "state", first)
    assert (entry.number, entry.status, entry.causes) == (2, "unknown", ("the state is missing",))
    assert chain.read(messages([first, entry])).breaks == ()
    assert chain.read(messages([first, replace(entry, status="ok"), entry])).status == "unknown"


def test_the_contract_of_the_topic_has_the_fields_of_an_entry() -> None:
    assert list(verdicts_schema()["properties"]) == [each.name for each in fields(Entry)]


def test_a_verdict_over_segments_sums_their_figures_and_names_their_offenders() -> None:
    good = verdict_of("p", ledger(OK, OK))
    assert good.status == "ok"
    assert good.check("conservation").figures == {"raw": 6}
    assert good.check("ledger").figures == {"segments": 2, "messages": 6, "offenders": 0}
    red = verdict_of("p", ledger(OK, RED, OK))
    assert (red.status, red.check("conservation").offenders) == ("failed", RED.offenders)
    unread = verdict_of("p", ledger(OK, OPEN))
    assert (unread.status, unread.check("enrichment").why) == ("unknown", "could not be read")


def test_a_check_with_a_status_that_no_check_has_is_not_ok() -> None:
    (entry,) = ledger(OPEN)
    assert verdict_of("p", [replace(entry, figures={"conservation": {"status": "okay"}})]).status == "unknown"


def test_a_verdict_over_no_segment_or_one_that_was_not_judged_or_a_broken_chain_is_unknown() -> None:
    assert verdict_of("p", []).check("ledger").why == "there is no entry"
    entries = ledger(OK)
    lost = unjudged(segment(1, OK), {}, ["the state is missing"], "s", entries[-1])
    found = verdict_of("p", [*entries, lost])
    assert (found.status, found.check("ledger").why) == ("unknown", "the state is missing")
    assert verdict_of("p", entries, ["entry 1 was altered"]).status == "unknown"


def test_a_verdict_over_assumed_segments_is_not_ok() -> None:
    found = verdict_of("p", ledger(OK, assumed="the first messages were deleted"))
    assert (found.status, found.check("conservation").status) == ("unknown", "ok")
    assert found.check("ledger").why == (
        "segments are assumed, as the oracle has not seen all that the pattern remembers: "
        "the first messages were deleted"
    )
    assert verdict_of("p", ledger(RED, assumed="the first messages were deleted")).status == "failed"


def test_what_is_overdue_before_the_moment_asked_for_makes_a_verdict_unknown() -> None:
    (entry,) = ledger(OK)
    waiting = replace(entry, pending={"windows overdue": 9, "rows": 4})
    found = verdict_of("p", [waiting], until_ms=MINUTE_MS + 1)
    assert found.status == "unknown"
    assert found.check("ledger").why.endswith("is not all judged; pending: 9 windows overdue")
    assert verdict_of("p", [waiting], until_ms=MINUTE_MS).status == "ok", "what came later may still come out"


@pytest.mark.parametrize(
    ("checks", "assumed", "is_altered", "is_ok"),
    [
        ((OK, OK), "", False, True),
        ((OK, OK), "deleted", False, True),
        ((RED, OK), "", False, False),
        ((OK, RED), "", False, False),
        ((OK, OK), "", True, False),
    ],
)
def test_an_update_succeeds_if_the_newest_entries_are_ok_and_none_was_altered(
    checks: tuple[Any, ...], assumed: str, is_altered: bool, is_ok: bool
) -> None:
    entries = ledger(*checks, assumed=assumed)
    first = replace(entries[0], messages=7) if is_altered else entries[0]
    assert is_well(chain.read(messages([first, *entries[1:]])), entries) == is_ok


def test_the_page_names_an_entry_that_came_before_its_segment_can_have_ended() -> None:
    page = verdicts.Ledger()
    for entry in ledger(OK, OK):
        at_ms = ledger(OK)[0].cut_ms
        page.take(Record("verdicts", 0, entry.number - 1, at_ms - 60_000, b"p", entry.to_json().encode()))
    assert [each.status for each in page.findings] == ["ok", "unknown"]
    assert page.findings[-1].causes == (f"entry 2 ends at {2 * MINUTE_MS}, which is still to come",)
