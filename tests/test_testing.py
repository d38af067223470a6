"""Scenarios for the tests of any use: what they play, and the refusal of what cannot be read."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millrace.rules import (
    TOKEN_LENGTH,
    TOKEN_PATTERN,
    Count,
    Enrichment,
    EventRule,
    EventType,
    Lookup,
    Max,
    RuleError,
    Session,
    Text,
    Tumbling,
    UseCase,
    Whole,
    WindowRule,
)
from millrace.testing import ScenarioError, played, read, scenarios, token, untrue_labels
from millrace.traffic import Label, Message
from millrace.traffic.labels import labels_of
from pipelines.fraud import FRAUD
from pipelines.fraud.traffic import FraudTraffic

HOUR_MS = 3_600_000
readings = EventType(
    "readings",
    "What a sensor measures.",
    (Text("reading"), Text("sensor"), Text("unit", required=False), Whole("celsius", -50, 200), Whole("at_ms", 0)),
    key="sensor",
    id="reading",
    time="at_ms",
    past_ms=HOUR_MS,
    future_ms=1_000,
)
halls = EventType("halls", "Where a sensor is.", (Text("sensor"), Text("hall")), key="sensor", compacted=True)
enrichment = Enrichment(readings, (Lookup(halls, "sensor", {"hall": "hall"}),), {}, {})
enriched = enrichment.enriched("enriched", "A reading with its hall.")
hotter = EventRule(
    "hotter", "Hotter than before.", readings, lambda now, before: now.celsius > before.most, {"most": Max("celsius")}
)
crowd = WindowRule(
    "crowd",
    "Three readings in a hall, each at most a second after the one before.",
    enriched,
    "hall",
    Session(1_000),
    {"n": Count()},
    lambda w: w.n >= 3,
)
USE = UseCase("halls", readings, enrichment, enriched, references=(halls,), rules=(hotter, crowd))

TEXT = """
== A rise alerts on the reading that is above all before
     # in halls as in kitchens
     0.000  h1  halls     sensor=s1 hall=north
     0.000  r1  readings  sensor=s1 celsius=20
     2.000  r2  readings  sensor=s1 celsius=20
     4.000  r3  readings  sensor=s1 celsius=21
  => hotter r3  celsius=21 before_most=20

== Three readings within a second of each other are a crowd, from two sensors of a hall
     0.000  h1  halls     sensor=s1 hall=north
     0.000  h2  halls     sensor=s2 hall=north
     0.000  r1  readings  sensor=s1 celsius=20
     2.000  r3  readings  sensor=s2 celsius=20
     1.000  r2  readings  sensor=s1 celsius=20
  => crowd r1 r2 r3  n=3

== Every kind of refusal
     0.000  r0  readings  sensor=s1 celsius=20
     0.000  h1  halls     sensor=s1 hall=north
     0.000  r1  readings  sensor=s1 celsius=20
     1.000  r2  again r1
     2.000  r3  readings  sensor=s1
     3.000  r4  readings  sensor=s1 celsius=null
     4.000  r5  readings  is '{"sensor":'
     5.000  r6  readings  sensor=s1 celsius=20 at_ms=0
     6.000  h2  halls     sensor=s3
  => refused r0 unknown:halls
  => refused r2 duplicate
  => refused r3 missing:celsius
  => refused r4 null:celsius
  => refused r5 json
  => refused r6 past:at_ms
  => refused h2 missing:hall
"""


requests = EventType(
    "requests",
    "A log-in without an id: two that are the same are two.",
    (Text("ip"), Whole("at_ms", 0)),
    key="ip",
    time="at_ms",
    past_ms=HOUR_MS,
)
as_they_come = Enrichment(requests)
logged = as_they_come.enriched("logged", "A log-in.")
flood = WindowRule(
    "flood",
    "Three log-ins in a span of three seconds.",
    logged,
    "ip",
    Tumbling(3_000),
    {"n": Count()},
    lambda w: w.n > 2,
)
LOG_INS = UseCase("log-ins", requests, as_they_come, logged, rules=(flood,))

notes = EventType(
    "notes",
    "What somebody writes at a desk.",
    (Text("desk"), Text("note", "[a-z ]+"), Whole("at_ms", 0)),
    key="desk",
    time="at_ms",
    past_ms=HOUR_MS,
)
unchanged = Enrichment(notes)
noted = EventRule("noted", "A warning.", notes, lambda now, before: now.note == "look out")
DESKS = UseCase("desks", notes, unchanged, unchanged.enriched("kept", "A note."), rules=(noted,))

FLOOD = """
== The end of a window is outside of it, and repetition counts
     0.000  r1  requests  ip=a
     1.000  r2  requests  ip=a
     1.500  r3  again r2
     3.000  r4  requests  ip=a
  => flood r1 r2 r3  n=3
"""


def test_events_without_an_id_are_known_by_their_lines(tmp_path: Path) -> None:
    (scenario,) = read(LOG_INS, written(tmp_path, FLOOD))
    assert played(scenario) == scenario.expected


def test_an_expected_value_with_spaces_is_in_quotes(tmp_path: Path) -> None:
    text = """
== A note of two words
     0.000  r1  notes  desk=a note='look out'
  => noted r1  note='look out'
"""
    (scenario,) = read(DESKS, written(tmp_path, text))
    assert played(scenario) == scenario.expected == ["noted r1 note=look out"]


def test_lines_above_the_titles_belong_to_every_scenario(tmp_path: Path) -> None:
    text = """
given readings  sensor=s1 celsius=20
     0.000  h1  halls     sensor=s1 hall=north

== What a line gives is stronger
given readings  celsius=30
     1.000  r1  readings
     2.000  r2  readings  celsius=31  # above 30
  => hotter r2  before_most=30

== What one scenario gives is not given in the next
     1.000  r1  readings
     2.000  r2  readings  celsius=30
  => hotter r2  before_most=20
"""
    for scenario in read(USE, written(tmp_path, text)):
        assert played(scenario) == scenario.expected


def test_copies_have_ids_of_their_own_and_one_name_in_the_outcome(tmp_path: Path) -> None:
    text = """
== Three at once
     0.000  h1  halls     sensor=s1 hall=north
     0.000  r1  3 times  readings  sensor=s1 celsius=20
  => crowd r1  n=3
"""
    (scenario,) = read(USE, written(tmp_path, text))
    assert played(scenario) == scenario.expected == ["crowd r1.1 r1.2 r1.3 n=3"]


def test_a_scenario_damages_events_by_functions_of_the_test(tmp_path: Path) -> None:
    text = """
== Half an event
     0.000  r1  readings  sensor=s1 celsius=20  spoilt by half of it
     1.000  r2  readings  spoilt by nothing
  => refused r1 json
  => refused r2 empty
"""
    spoiling = {"half of it": lambda event: str(event).encode()[:9], "nothing": lambda event: None}
    (scenario,) = read(USE, written(tmp_path, text), spoiling)
    assert played(scenario) == scenario.expected
    assert [each.key for each in scenario.arrivals] == [b"s1", b"None"]


def test_a_token_has_a_name(tmp_path: Path) -> None:
    text = "== A title\n0.000 r1 cards card=token:blue\n=> nothing\n"
    cards = EventType(
        "cards",
        "A card.",
        (Text("card", TOKEN_PATTERN, TOKEN_LENGTH), Whole("at_ms", 0)),
        key="card",
        time="at_ms",
        past_ms=HOUR_MS,
    )
    use = UseCase("cards", cards, Enrichment(cards), Enrichment(cards).enriched("kept", "A card."))
    (scenario,) = read(use, written(tmp_path, text))
    assert scenario.arrivals[0].key == token("blue").encode()
    assert played(scenario) == scenario.expected == []


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "odd.scenario"
    path.write_text(text)
    return path


def test_the_oracle_finds_what_scenarios_expect(tmp_path: Path) -> None:
    found = read(USE, written(tmp_path, TEXT))
    assert [each.title.split()[0] for each in found] == ["A", "Three", "Every"]
    for scenario in found:
        assert played(scenario) == scenario.expected


@pytest.mark.parametrize(
    ("old", "new", "lacking"),
    [
        ("=> hotter r3  celsius=21 before_most=20", "=> nothing", "hotter r3"),
        ("before_most=20", "before_most=19", "hotter r3 before_most=20 celsius=21"),
        ("before_most=20", "most=20", "hotter r3 celsius=21 most=(none; choose one of: celsius, before_most)"),
        ("=> crowd r1 r2 r3", "=> crowd r1 r2", "crowd r1 r2 r3"),
        ("  => refused r2 duplicate\n", "", "refused r2 duplicate"),
    ],
)
def test_an_outcome_that_a_scenario_does_not_expect_is_shown(tmp_path: Path, old: str, new: str, lacking: str) -> None:
    assert old in TEXT
    differing = [
        scenario
        for scenario in read(USE, written(tmp_path, TEXT.replace(old, new)))
        if played(scenario) != scenario.expected
    ]
    assert len(differing) == 1
    assert lacking in played(differing[0])
    assert lacking not in differing[0].expected


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("1.0 r2 readings sensor", "'sensor' is not a field; write FIELD=VALUE"),
        ("1.0 r2 readings sensor=s1 celsius=warm", "'celsius=warm' is not JSON; 'celsius' is a whole"),
        ("1.0 r2 readings sensor=s1 celcius=1", "did you mean 'celsius'?"),
        ("1.0 r2 reading sensor=s1", "did you mean 'readings'?"),
        ("1.0 r1 readings sensor=s1", "there is a line 'r1' above"),
        ("1.0 r2 again r9", "there is no line 'r9' above"),
        ("1.0 r2 readings spoilt by gremlins", "the test names no way to spoil 'gremlins'"),
        ("given reading sensor=s1", "did you mean 'readings'?"),
        ("given", "write given STREAM FIELD=VALUE"),
        ("r2 readings sensor=s1", "is not an event; write SECONDS LINE STREAM"),
        ("1.0 r2 readings sensor='s1", "cannot be split into words"),
        ("=> hotter r1 unit='c", "cannot be split into words"),
        ("=> hoter r1", "'=> hoter r1' is not an outcome"),
        ("=> hotter r7", "'=> hotter r7' is not an outcome"),
    ],
)
def test_a_scenario_that_cannot_be_read_names_the_line_and_the_remedy(
    tmp_path: Path, line: str, complaint: str
) -> None:
    path = written(tmp_path, f"== A title\n0.0 r1 readings sensor=s1 celsius=1\n{line}\n")
    with pytest.raises(ScenarioError, match=r"^odd\.scenario, line 3: ") as error:
        read(USE, path)
    assert complaint in str(error.value)


def test_a_scenario_without_an_outcome_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="needs an event and an outcome; write `=> nothing`"):
        read(USE, written(tmp_path, "== A title\n0.0 r1 readings sensor=s1 celsius=1\n"))
    with pytest.raises(ScenarioError, match="there is no scenario; begin one with =="):
        read(USE, written(tmp_path, ""))


@pytest.mark.parametrize("use", ["fraud", "flood"])
def test_the_labels_of_all_traffic_are_true(use: str) -> None:
    assert untrue_labels(use) == []


def relabelled(monkeypatch: pytest.MonkeyPatch, topic: str = "transactions", **labels: Any) -> None:
    """The first everyday message to a topic has this label."""
    made = FraudTraffic.messages

    def messages(*given: Any) -> Iterator[Message]:
        is_first = True
        for each in made(*given):
            is_it = is_first and (each.topic, each.label.kind) == (topic, "everyday")
            yield each._replace(label=Label("everyday", **labels)) if is_it else each
            is_first = is_first and not is_it

    monkeypatch.setattr(FraudTraffic, "messages", messages)


def test_a_label_that_is_untrue_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    relabelled(monkeypatch, alerts=("spree",), refusal="json")
    alert, refusal = untrue_labels("fraud")
    assert re.fullmatch(r"run-\S+ run-\S+ \(everyday\) does not set off spree", alert)
    assert refusal == "a message to transactions (everyday) is accepted, not refused as json"


def test_a_label_on_an_event_that_no_rule_judges_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    relabelled(monkeypatch, "device-locations", alerts=("spree",))
    why = "a label 'everyday' on a message to 'device-locations' names rules; label the event of 'transactions' that"
    with pytest.raises(RuleError, match=why):
        untrue_labels("fraud")


def test_a_label_with_a_misspelt_rule_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    relabelled(monkeypatch, alerts=("spre",))
    with pytest.raises(RuleError, match="a label 'everyday' names the rule 'spre'; did you mean 'spree'"):
        untrue_labels("fraud")


@pytest.mark.parametrize(
    ("value", "lacks"),
    [(b"{", "JSON"), (b'{"at_ms": null}', "'at_ms'"), (b'{"at_ms": 1, "customer": "a"}', "'transaction_id'")],
)
def test_a_message_that_is_refused_sets_off_no_rule(value: bytes, lacks: str) -> None:
    by_chance, meant = (
        Message(0, "transactions", b"a", value, label)
        for label in (Label("race"), Label("everyday", alerts=("spree",)))
    )
    assert labels_of(FRAUD, [by_chance], (0, 0)).ambiguous == set()
    with pytest.raises(RuleError, match=f"the rule 'spree' on a message without {lacks}, which is refused; label it"):
        labels_of(FRAUD, [meant], (0, 0))


def test_a_closing_that_is_refused_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    made = FraudTraffic.closing
    monkeypatch.setattr(FraudTraffic, "closing", lambda *given: (each._replace(value=b"{") for each in made(*given)))
    assert set(untrue_labels("fraud", events=200)) == {
        "a message to transactions (closing) is refused as json, not accepted"
    }


def test_a_message_for_a_misspelt_event_type_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    made = FraudTraffic.messages
    misspelt = {"transactions": "transaction"}
    monkeypatch.setattr(
        FraudTraffic,
        "messages",
        lambda *given: (each._replace(topic=misspelt.get(each.topic, each.topic)) for each in made(*given)),
    )
    why = "is for 'transaction', which is no event type of use 'fraud'; did you mean 'transactions'"
    with pytest.raises(RuleError, match=why):
        untrue_labels("fraud")


def test_a_use_without_scenarios_is_named() -> None:
    with pytest.raises(ScenarioError, match="has no use 'fraude'; did you mean 'fraud'"):
        scenarios("fraude")
