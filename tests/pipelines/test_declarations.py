"""What a use declares, and what it must not."""

import math
import re
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from millrace.rules import (
    Count,
    Enrichment,
    EventRule,
    EventType,
    FoldRule,
    Last,
    Lookup,
    Max,
    Min,
    Real,
    RuleError,
    Session,
    Sum,
    Table,
    Text,
    Tumbling,
    UseCase,
    Whole,
    WindowRule,
    WindowSummary,
    Words,
)
from millrace.traffic import Canaries

MINUTE_MS = 60_000
HERE = r"\(pipelines/test_declarations\.py, line \d+\): "
scans = EventType(
    "scans",
    "A parcel in a depot.",
    (Text("scan"), Text("parcel"), Text("note", required=False), Whole("grams", 0, 9), Whole("at_ms", 0)),
    key="parcel",
    id="scan",
    time="at_ms",
    past_ms=MINUTE_MS,
)
doors = EventType(
    "doors", "A door.", (Text("parcel"), Whole("at_ms", 0)), key="parcel", time="at_ms", past_ms=MINUTE_MS
)
depots = EventType(
    "depots",
    "Reference data: the docks of a depot, where they are known.",
    (Text("parcel"), Text("zone", "[a-z ]+", 9, may_pass_luhn=True), Whole("docks", 0, 9, required=False)),
    key="parcel",
    compacted=True,
)
enrichment = Enrichment(scans, (Lookup(depots, "parcel", {"zone": "zone", "free_docks": "docks"}),))
enriched = enrichment.enriched("enriched", "A scan.")
heavy = EventRule("heavy", "More than 5 g.", scans, lambda now, before: now.grams > 5)
crowd = WindowRule("crowd", "Two.", enriched, "zone", Tumbling(9), {"n": Count()}, lambda w: w.n > 1)
per_zone = WindowSummary("per-zone", "Scans.", enriched, ("zone",), Tumbling(9), {"n": Count()})
USE = UseCase("parcels", scans, enrichment, enriched, (doors,), (depots,), (heavy, crowd), (per_zone,))
TIMELESS = Enrichment(replace(scans, time=None))


def step(state, event, stream):
    return state, None


def keyed(event_type: EventType, field: Whole) -> EventType:
    """The event type with a field in place of the one of that name."""
    others = (each for each in event_type.fields if each.name != field.name)
    return replace(event_type, fields=(field, *others))


def within(field: Whole) -> dict[str, Any]:
    """The use with this field in its judged events."""
    judged = keyed(scans, field)
    enrichment = Enrichment(judged)
    return {
        "judged": judged,
        "enrichment": enrichment,
        "enriched": enrichment.enriched("enriched", ""),
        "rules": (),
        "summaries": (),
    }


def remembering(stream: EventType) -> EventRule:
    return EventRule("late", "", scans, lambda now, b: b.seen.at_ms > 5, {"seen": Last(stream, "at_ms")})


def test_an_optional_field_of_reference_data_is_optional_in_the_enriched_event():
    schema = enriched.json_schema()
    assert schema["properties"]["free_docks"] == {"type": ["integer", "null"], "minimum": 0, "maximum": 9}
    assert ("free_docks" in schema["required"], "zone" in schema["required"]) == (False, True)


def test_a_field_of_reference_data_keeps_its_limits_under_its_new_name():
    assert next(each for each in enriched.readable if each.name == "zone").limits() == depots.fields[1].limits()


def showing(rule: EventRule | WindowRule | WindowSummary, *texts: Text, max_bytes: int = 16_384) -> dict[str, Any]:
    """The use with this rule or summary alone, and with these texts in its judged events."""
    fields = {each.name: each for each in (*scans.fields, *texts)}
    judged = replace(scans, fields=tuple(fields.values()), max_bytes=max_bytes)
    enrichment = Enrichment(judged)
    enriched = enrichment.enriched("enriched", "")
    parts: dict[str, Any] = {"judged": judged, "enrichment": enrichment, "enriched": enriched}
    match rule:
        case WindowSummary():
            return parts | {"rules": (), "summaries": (replace(rule, on=enriched, keys=()),)}
        case WindowRule():
            return parts | {"rules": (replace(rule, on=enriched, key="parcel"),), "summaries": ()}
        case _:
            remembers = {name: Last(judged, "note") for name in rule.remembers}
            return parts | {"rules": (replace(rule, on=judged, remembers=remembers),), "summaries": ()}


NOTE = Text("note", ".*", 90_000, required=False)
NOTES = {"first": Min("note"), "last": Max("note")}
TWICE = EventRule("twice", "", scans, lambda now, b: now.note == b.other.note, {"other": Last(scans, "note")})


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"judged": TIMELESS.on, "enrichment": TIMELESS}, "the events of 'scans' have no time"),
        ({"disorder_ms": -1}, "disorder_ms must be a whole number from 0 to 9,999,999,999,000, not -1"),
        ({"disorder_ms": 2.5}, "disorder_ms must be a whole number from 0 to 9,999,999,999,000, not 2.5"),
        ({"judged": doors}, "the enrichment is of 'scans'; only 'doors' is enriched"),
        ({"references": ()}, "the enrichment looks up 'depots'; add it to the references"),
        ({"rules": (replace(heavy, name="limits"),)}, "no rule or summary can be called 'limits'"),
        ({"others": (doors, doors)}, "2 event types are called 'doors'; rename one of them"),
        ({"others": (replace(doors, name="my doors"),)}, "'my doors' cannot be in names of topics and in alerts"),
        ({"rules": (replace(heavy, name=""),)}, "'' cannot be in names of topics"),
        (
            {"others": (replace(doors, name="Scans"),)},
            "event types 'scans' and 'Scans' differ in capitals only, which an engine takes for one; rename one",
        ),
        ({"others": (replace(doors, name="Offset"),)}, "no event type can be called 'Offset': an engine has"),
        ({"others": (replace(doors, compacted=True),)}, "'doors' is compacted, and only references are; take comp"),
        ({"others": (replace(doors, name="alerts"),)}, "no event type can be called 'alerts'"),
        ({"others": (replace(doors, name="hop"),)}, "no event type can be called 'hop': every pattern has a topic"),
        ({"others": (replace(doors, name="offset"),)}, "no event type can be called 'offset': an engine has"),
        *(
            ({"others": (replace(doors, name=name),)}, f"no event type can be called '{name}': ")
            for name in ("rehearsal", "contracts", "dealt")
        ),
        ({"others": (replace(doors, name="_clock"),)}, "no event type can be called '_clock': columns of engines"),
        ({"others": (replace(doors, past_ms=0),)}, "'doors' accepts no event that is a millisecond old"),
        (
            {"others": (replace(doors, max_bytes=290_000),)},
            "what is made of 'scans', 'depots', 'doors' may not fit into a message of Kafka; "
            "their max_bytes are at most 300000 together, not 322768",
        ),
        (
            {"others": (keyed(doors, Whole("parcel", 0, 9)),)},
            r"'parcel' of 'doors' is a key or an id, so it must be a text; Text\('parcel', takes_whole=True\)",
        ),
        ({"others": (replace(doors, fields=(*doors.fields, Words("tags"))),)}, "'tags' of 'doors' is a Words"),
        (
            within(Whole("rowtime")),
            "no field of 'enriched' can be called 'rowtime': an engine has a column of that name; rename it",
        ),
        (within(Whole("scan", 0, 9)), "'scan' of 'scans' is a key or an id, so it must be a text"),
        ({"enriched": enrichment.enriched("scans", "")}, "2 event types are called 'scans'"),
        ({"rules": (heavy, replace(heavy, doc="Again."))}, "2 rules and summaries are called 'heavy'"),
        ({"rules": (replace(crowd, name="per-zone"),)}, "2 rules and summaries are called 'per-zone'"),
        (
            {"rules": (replace(heavy, on=enriched),)},
            "rule 'heavy' is on 'enriched'; rules on single events read 'scans'",
        ),
        ({"rules": (replace(crowd, on=scans, key="parcel"),)}, "rule 'crowd' is on 'scans'; rules on windows read"),
        ({"summaries": (replace(per_zone, on=scans, keys=("parcel",)),)}, "summaries read 'enriched'"),
        (
            {"others": (), "rules": (FoldRule("fold", "Any.", scans, step, "1", also=(doors,)),)},
            "rule 'fold' also reads 'doors'; add this event type to the others",
        ),
        ({"others": (), "rules": (remembering(doors),)}, "rule 'late' remembers the last of 'doors'; add this event"),
        (
            {"others": (replace(doors, key="at_ms", time=None, fields=(Whole("at_ms", required=False),)),)},
            "'doors' needs 'at_ms'",
        ),
    ],
)
def test_the_parts_of_a_use_that_do_not_fit_are_named(changes, complaint):
    with pytest.raises(RuleError, match=f"^use 'parcels': .*{complaint}"):
        replace(USE, **changes)


@pytest.mark.parametrize(
    ("fits", "does_not_fit"),
    [
        (
            showing(replace(crowd, ids_most=9_000), Text("scan", max_length=100)),
            showing(replace(crowd, ids_most=9_800), Text("scan", max_length=100)),
        ),
        (
            showing(replace(crowd, ids_most=1_200), Text("scan", ".+", 64)),
            showing(replace(crowd, ids_most=1_300), Text("scan", ".+", 64)),
        ),
        (
            showing(replace(crowd, measures={"n": Count(), "note": Last("note")}), NOTE, max_bytes=200_000),
            showing(replace(crowd, measures={**NOTES, "n": Count()}), NOTE, max_bytes=200_000),
        ),
        (
            showing(replace(heavy, alert_when=lambda now, b: now.note == "a"), NOTE, max_bytes=200_000),
            showing(TWICE, NOTE, max_bytes=200_000),
        ),
        (
            showing(replace(per_zone, measures={"note": Max("note")}), NOTE, max_bytes=200_000),
            showing(replace(per_zone, measures=NOTES), NOTE, max_bytes=200_000),
        ),
        (
            showing(TWICE, NOTE),  # no value is longer than its message
            showing(TWICE, NOTE, max_bytes=180_000),
        ),
    ],
)
def test_what_may_not_fit_into_a_message_of_kafka_is_refused(
    fits: dict[str, Any], does_not_fit: dict[str, Any]
) -> None:
    assert replace(USE, **fits)
    with pytest.raises(RuleError, match=r"'[a-z-]+' writes may not fit .* its texts may have 1,\d{3},\d{3} bytes, and"):
        replace(USE, **does_not_fit)


@pytest.mark.parametrize("pattern", [r"[A-Za-z0-9_.:\-]+", r"\w+\.\d{2}", "(?:one|two)?", r"[a-z ]\[x\]"])
def test_a_letter_of_a_plain_text_is_one_byte(pattern: str) -> None:
    assert Text("note", pattern, 9).bytes_most == 9 + 3


@pytest.mark.parametrize(
    "pattern", [".", "[^a]", r"\S", r"\s", r"\W", r"\\", "[ -~]", '"', "ä", r"\u00e4", r"[\x01]", r"(.)\1"]
)
def test_a_letter_of_another_text_may_be_two_escapes(pattern: str) -> None:
    """As Jackson writes a letter of four bytes."""
    assert Text("note", pattern, 9).bytes_most == 9 * len(r"\ud83d\ude00") + 3


@pytest.mark.parametrize("name", ["", "my parcels", "größe", "a/b", 5])
def test_a_use_has_a_name_that_files_and_the_command_line_take(name):
    with pytest.raises(RuleError, match=f"^use '{name}': its name is on the command line and in files; use letters"):
        replace(USE, name=name)


def test_a_rule_may_remember_the_last_event_of_each_stream_of_its_use():
    assert replace(USE, rules=(remembering(doors),)).rules
    assert replace(USE, rules=(remembering(scans),)).rules


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"fields": (*scans.fields, Text("note"))}, "has 2 fields 'note'; rename one of them"),
        ({"fields": (*scans.fields, Text("Note"))}, "has 2 fields like 'note', but for capitals; rename one of them"),
        ({"fields": (*scans.fields, Text("user.agent"))}, "no field can be called 'user.agent'; use letters"),
        ({"fields": (*scans.fields, Text("_place"))}, "no field can be called '_place'; use letters"),
        ({"fields": (*scans.fields[:-1], Text("sent_ms"))}, "'sent_ms' is when the sender meant to send an event"),
        ({"key": "parcels"}, "has no field 'parcels'; its fields: scan, parcel"),
        ({"time": "note"}, r"its time 'note' is not a whole number; declare Whole\('note'\)"),
        ({"past_ms": -1}, "past_ms must be a whole number from 0 to 9,999,999,999,000, not -1"),
        ({"future_ms": 0.5}, "future_ms must be a whole number from 0 to 9,999,999,999,000, not 0.5"),
        ({"past_ms": 2**63 - 1}, "past_ms must be a whole number from 0 to 9,999,999,999,000, not 9223372036854775807"),
        ({"past_ms": True}, "past_ms must be a whole number from 0 to 9,999,999,999,000, not True"),
        ({"version": 0}, "version must be a whole number from 1 to 2,147,483,647, not 0"),
        ({"version": "2"}, "version must be a whole number from 1 to 2,147,483,647, not '2'"),
        (
            {"fields": (*scans.fields, Text("place", max_length=0))},
            "the max_length of 'place' must be a whole number from 1 to 2,147,483,647, not 0",
        ),
        ({"max_bytes": 0}, "max_bytes must be from 1 to 700000, not 0"),
        ({"fields": (*scans.fields, Text("place", "[a"))}, "the pattern of 'place' is no regular expression"),
        ({"fields": (*scans.fields, Whole("floor", 3, 2))}, "no number is from 3 to 2; .* of 'floor'"),
        ({"fields": (*scans.fields, Whole("floor", 0, 2**64))}, "'floor' must be whole numbers of 64 bits, not 0 and"),
        (
            {"fields": (*scans.fields, Whole("floor", 0.5, 2))},
            "'floor' must be whole numbers of 64 bits, not 0.5 and 2",
        ),
        ({"fields": (*scans.fields, Real("wide", 0, math.inf))}, "the least and the most of 'wide' must be finite"),
        ({"fields": (*scans.fields, Real("wide", 0, 10**400))}, "the least and the most of 'wide' must be finite"),
        ({"fields": (*scans.fields, Real("wide", "0", "9"))}, "the least and the most of 'wide' must be finite"),
    ],
)
def test_an_event_type_that_no_event_fits_is_refused(changes, complaint):
    with pytest.raises(RuleError, match=f"^event type 'scans'.*{complaint}"):
        replace(scans, **changes)


@pytest.mark.parametrize("pattern", ["(?:[a-z]|[0-9])*", "(a|b)+", "(?:ab){2,}", "(?:ab){1,2000}", "(?:x+y)*z"])
def test_a_long_text_whose_pattern_repeats_a_group_is_refused(pattern: str) -> None:
    with pytest.raises(
        RuleError, match=r"'note' repeats a group, .* a max_length of at most 1,000, or a set of letters"
    ):
        EventType("notes", "", (Text("id"), Text("note", pattern, max_length=16_000)), "id")
    EventType("notes", "", (Text("id"), Text("note", pattern, max_length=1_000)), "id")


@pytest.mark.parametrize("pattern", [r"[(a|b)]*", r"\)*", "(?:ab)?[a-z]*", "(?:ab){3}", "(a|b)"])
def test_a_long_text_whose_pattern_repeats_no_group_is_accepted(pattern: str) -> None:
    EventType("notes", "", (Text("id"), Text("note", pattern, max_length=16_000)), "id")


@pytest.mark.parametrize(
    ("pattern", "differs"),
    [
        (r"(?P<one>a)", r"\(\?"),
        (r"(?i)a", r"\(\?"),
        (r"a++", r"\+\+"),
        (r"a{,3}", r"\{"),
        (r"[a&&[b]]", r"\[a&&"),
        (r"[[a]", r"\[\["),
        (r"[]a]", r"\[\]"),
        (r"\bword", r"\\b"),
        (r"\Aa", r"\\A"),
    ],
)
def test_a_pattern_that_is_not_read_alike_everywhere_is_refused(pattern, differs):
    with pytest.raises(
        RuleError, match=f"the pattern of 'place' has '{differs}.*', which Python, Java and JSON Schema"
    ):
        replace(scans, fields=(*scans.fields, Text("place", pattern)))


@pytest.mark.parametrize(
    "pattern",
    [r"[\s\S]*", r"[0-9*+#]+", r"(?:a|b){1,3}?", r"(?=a)a\.b", r"[^\]\[]", r"\[a\]&&", r"a\{,", r"\u00e4\x41\1"],
)
def test_a_pattern_that_is_read_alike_everywhere_is_taken(pattern):
    assert replace(scans, fields=(*scans.fields, Text("place", f"(a){pattern}")))


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Enrichment(scans, adds={"grams": lambda now, before: now.grams + 1}), "'grams' is there already"),
        (lambda: Enrichment(scans, (Lookup(depots, "parcel", {"note": "zone"}),)), "'note' is there already"),
        (
            lambda: Enrichment(scans, adds={"one": lambda now, before: 1}),
            "'one' must be a number made of fields, not 1",
        ),
        (
            lambda: replace(crowd, key="note"),
            r"rule 'crowd' \(pipelines/test_declarations.py, line \d+\): its key is 'note'; alerts need one that",
        ),
        (
            lambda: replace(crowd, measures={"n": Count(), "first_ms": Count()}),
            "'first_ms' is a value of every alert of it; give the measure another name",
        ),
        (
            lambda: replace(crowd, measures={"n": Count(), "zone": Last("zone")}),
            "'zone' is a value of every alert of it",
        ),
        (
            lambda: replace(crowd, ids_most=-1),
            "rule 'crowd' .*: ids_most must be a whole number from 1 to 10,000, not -1",
        ),
        (lambda: replace(per_zone, measures={}), "summary 'per-zone' .*: it has no measures; give it one"),
        (lambda: replace(per_zone, window=Session(9)), "its window is Session; choose Tumbling or Sliding"),
        (lambda: replace(per_zone, measures={"zone": Sum("grams")}), "'zone' is a column already"),
        (lambda: replace(per_zone, keys=("zone", "zone")), "'zone' is a column already; take this key out"),
        (lambda: replace(per_zone, measures={"_n": Count()}), "no measure can be called '_n'; use letters, digits"),
        (lambda: replace(crowd, measures={"n": Count(), "top-3": Sum("grams")}), "no measure can be called 'top-3'"),
        (lambda: replace(heavy, remembers={"": Sum("grams")}), "no measure can be called ''; use letters"),
        (
            lambda: replace(crowd, measures={"n": Count(), "N": Sum("grams")}),
            "rule 'crowd' .*: 'n' and 'N' differ in capitals only, which an engine takes for one; rename one",
        ),
        (lambda: replace(per_zone, measures={"Zone": Count()}), "'zone' and 'Zone' differ in capitals only"),
        (
            lambda: replace(crowd, measures={"n": Count(), "window_start": Count()}),
            "no measure can be called 'window_start': an engine has a column of that name; rename it",
        ),
        (lambda: replace(crowd, measures={"n": Count(), "window_end": Count()}), "called 'window_end'"),
    ],
)
def test_a_declaration_that_would_lose_a_column_or_a_key_is_refused(make, complaint):
    with pytest.raises(RuleError, match=complaint):
        make()


def remembered(condition, on=scans, **remembers):
    return EventRule("r", "", on, condition, remembers)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (
            lambda: remembered(
                lambda now, b: b.seen.at_ms > b.seen_at_ms, seen=Last(doors, "at_ms"), seen_at_ms=Max("at_ms")
            ),
            "before.seen.at_ms and before.seen_at_ms would both be the value 'seen_at_ms' of the memory; rename one",
        ),
        (
            lambda: remembered(
                lambda now, b: now.before_most > b.most,
                on=replace(scans, fields=(*scans.fields, Whole("before_most"))),
                most=Max("grams"),
            ),
            "now.before_most and before.most would both be the value 'before_most' of its alerts; rename one",
        ),
        (
            lambda: remembered(lambda now, b: now.grams > 1, seen=Last(doors)),
            "'seen': Last names no field, or one twice",
        ),
        (
            lambda: remembered(lambda now, b: b.seen.at_ms > 1, seen=Last(doors, "at_ms", "at_ms")),
            r"'seen': Last names no field, or one twice; write Last\(STREAM, \"first\", \"second\"\)",
        ),
    ],
)
def test_two_values_under_one_name_are_refused(make, complaint):
    with pytest.raises(RuleError, match=f"^rule 'r' {HERE}{complaint}"):
        make()


def lookup(take):
    return Lookup(depots, "parcel", take)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (
            lambda: replace(USE, rules=heavy),
            "use 'parcels': rules is one EventRule, not a tuple; write rules=(EventRule(...),)",
        ),
        (
            lambda: replace(USE, others=doors),
            "use 'parcels': others is one EventType, not a tuple; write others=(EventType(...),)",
        ),
        (
            lambda: replace(USE, others={doors}),
            "use 'parcels': others is a set, not a tuple; write others=(FIRST, SECOND)",
        ),
        (
            lambda: replace(scans, fields=Text("k")),
            "event type 'scans': fields is one Text, not a tuple; write fields=(Text(...),)",
        ),
        (
            lambda: replace(scans, forbidden="pin"),
            "event type 'scans': forbidden is one text, not a tuple; write forbidden=(\"pin\",)",
        ),
        (
            lambda: replace(per_zone, keys="zone"),
            "summary 'per-zone' (HERE): keys is one text, not a tuple; write keys=(\"zone\",)",
        ),
        (
            lambda: replace(per_zone, measures={Count()}),
            "summary 'per-zone' (HERE): measures is a set, not a mapping; write measures={\"n\": Count()}",
        ),
        (
            lambda: replace(heavy, remembers=("most", Sum("grams"))),
            "rule 'heavy' (HERE): remembers is a tuple, not a mapping; write remembers={\"n\": Count()}",
        ),
        (
            lambda: Enrichment(scans, lookup({"zone": "zone"})),
            "enrichment of 'scans' (HERE): lookups is one Lookup, not a tuple; write lookups=(Lookup(...),)",
        ),
        (
            lambda: lookup({"zone"}),
            'lookup of \'depots\' (HERE): take is a set, not a mapping; write take={"NEW_NAME": "FIELD"}',
        ),
        (
            lambda: lookup(("zone",)),
            'lookup of \'depots\' (HERE): take is a tuple, not a mapping; write take={"NEW_NAME": "FIELD"}',
        ),
        (
            lambda: Canaries(("parcel", "canary:"), ("heavy",), lambda key, secrets, start_ms, for_ms: ()),
            'canaries (HERE): marks is a tuple, not a mapping; write marks={"FIELD": "canary:"}',
        ),
        (
            lambda: Canaries({"parcel": "canary:"}, "heavy", lambda key, secrets, start_ms, for_ms: ()),
            'canaries (HERE): rules is one text, not a tuple; write rules=("heavy",)',
        ),
        (
            lambda: Table("parcels", "parcel", columns="note"),
            "table 'parcels': columns is one text, not a tuple; write columns=(\"note\",)",
        ),
        (
            lambda: Table("parcels", "parcel", state={"most"}),
            'table \'parcels\': state is a set, not a mapping; write state={"most": Max("FIELD")}',
        ),
    ],
)
def test_one_thing_in_place_of_a_tuple_and_a_set_in_place_of_a_mapping_are_refused(make, complaint):
    with pytest.raises(RuleError) as error:
        make()
    assert re.sub(r"pipelines/test_declarations.py, line \d+", "HERE", str(error.value)) == complaint


def test_a_measure_may_be_called_as_a_column_that_no_window_is_grouped_by():
    assert replace(crowd, measures={"n": Count(), "rowtime": Count(), "window": Count()}).measures


def test_a_remembered_event_in_place_of_its_value_is_refused_with_their_names():
    with pytest.raises(RuleError, match=r"not with all of before\.seen; name one of its values: at_ms$"):
        remembered(lambda now, b: now.at_ms - b.seen > 5, seen=Last(doors, "at_ms"))


def made_step():
    return lambda state, event, stream: (state, None)


@pytest.mark.parametrize("unnamed", [lambda state, event, stream: (state, None), made_step(), partial(step, {})])
def test_a_step_that_no_worker_can_load_is_refused(unnamed):
    with pytest.raises(RuleError, match="has no name in a module; define it with `def` at the top of one"):
        FoldRule("fold", "Any.", scans, unnamed, version="1")


def test_a_version_that_is_no_text_is_refused():
    with pytest.raises(RuleError, match='its version 1 is no text; write version="1"'):
        FoldRule("fold", "Any.", scans, step, version=1)


def test_a_version_that_would_make_alert_ids_ambiguous_is_refused():
    with pytest.raises(RuleError, match=r"its version '1\|2' holds '\|'.*; take it out"):
        FoldRule("fold", "Any.", scans, step, version="1|2")


MISSPELT = HERE + "event type 'enriched' has no field 'gram'; did you mean 'grams'"


def counted(where, of=per_zone):
    return replace(of, measures={"n": Count(where=where)})


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (
            lambda: counted(lambda now: now.gram > 1),
            f"^summary 'per-zone' {HERE}'now' has no 'gram'; did you mean 'grams'",
        ),
        (lambda: counted(lambda now: now.gram > 1, crowd), f"^rule 'crowd' {HERE}'now' has no 'gram'"),
        (lambda: counted(lambda now: now.grams), f"^summary 'per-zone' {HERE}'n': where must give a comparison"),
        (lambda: replace(per_zone, measures={"most": Sum("gram")}), f"^summary 'per-zone' {MISSPELT}"),
        (lambda: replace(per_zone, keys=("gram",)), f"^summary 'per-zone' {MISSPELT}"),
        (lambda: replace(crowd, measures={"most": Last("gram")}), f"^rule 'crowd' {MISSPELT}"),
        (lambda: replace(crowd, key="gram"), f"^rule 'crowd' {MISSPELT}"),
        (
            lambda: replace(heavy, remembers={"most": Sum("gram")}),
            f"^rule 'heavy' {HERE}event type 'scans' has no field 'gram'",
        ),
        (
            lambda: Enrichment(scans, adds={"more": lambda now, before: now.gram + 1}),
            f"^enrichment of 'scans' {HERE}'now' has no 'gram'",
        ),
        (
            lambda: Enrichment(scans, (Lookup(depots, "parcel", {"area": "zon"}),)),
            f"^enrichment of 'scans' {HERE}event type 'depots' has no field 'zon'; did you mean 'zone'",
        ),
    ],
)
def test_a_misspelt_field_is_named_with_its_place_and_a_remedy(make, complaint):
    with pytest.raises(RuleError, match=complaint) as error:
        make()
    assert str(error.value).count("line ") == 1


def test_the_place_of_a_misspelt_field_is_the_line_of_its_declaration():
    with pytest.raises(RuleError) as error:
        WindowSummary("per-zone", "Scans.", enriched, ("zone",), Tumbling(9), {"n": Count(), "most": Sum("gram")})
    line = error.traceback[0].lineno + 1
    assert f"line {line})" in str(error.value)
