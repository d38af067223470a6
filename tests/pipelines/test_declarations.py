"""What a use declares, and what it must not."""

from millrace.rules import (
    Enrichment,
    EventType,
    Lookup,
    Text,
    Whole,
)

MINUTE_MS = 60_000
scans = EventType(
    "scans",
    "A parcel in a depot.",
    (Text("scan"), Text("parcel"), Text("note", required=False), Whole("grams", 0, 9), Whole("at_ms", 0)),
    key="parcel",
    id="scan",
    time="at_ms",
    past_ms=MINUTE_MS,
)
doors = EventType("doors", "A door.", (Text("parcel"), Whole("at_ms", 0)), key="parcel", time="at_ms")
depots = EventType(
    "depots",
    "Reference data: the docks of a depot, where they are known.",
    (Text("parcel"), Text("zone", "[a-z ]+", 9, may_pass_luhn=True), Whole("docks", 0, 9, required=False)),
    key="parcel",
    compacted=True,
)
enrichment = Enrichment(scans, (Lookup(depots, "parcel", {"zone": "zone", "free_docks": "docks"}),))
enriched = enrichment.enriched("enriched", "A scan.")


def test_an_optional_field_of_reference_data_is_optional_in_the_enriched_event():
    schema = enriched.json_schema()
    assert schema["properties"]["free_docks"] == {"type": ["integer", "null"], "minimum": 0, "maximum": 9}
    assert ("free_docks" in schema["required"], "zone" in schema["required"]) == (False, True)


def test_a_field_of_reference_data_keeps_its_limits_under_its_new_name():
    assert next(each for each in enriched.readable if each.name == "zone").limits() == depots.fields[1].limits()
