"""The declared columns of outputs: a row has each of them, in order, and no other."""

import pytest

from millrace.rules import DEAD_LETTERS, RuleError
from millrace.rules.outputs import provenance, row
from pipelines.fraud import FRAUD

LETTER = {name: name for name in DEAD_LETTERS.names}


def test_a_row_has_the_order_of_the_declaration():
    backwards = dict(reversed(LETTER.items()))
    assert list(row(DEAD_LETTERS.names, backwards).items()) == list(LETTER.items())


def test_a_row_with_a_column_too_few_or_too_many_is_refused_by_name():
    with pytest.raises(RuleError, match=r"no value for the column\(s\) stage; declared are reason, topic,"):
        row(DEAD_LETTERS.names, {name: "" for name in LETTER if name != "stage"})
    with pytest.raises(RuleError, match=r"no such column\(s\): why; declared are reason, topic,"):
        row(DEAD_LETTERS.names, {**LETTER, "why": ""})


def test_an_enriched_event_ends_with_the_place_of_its_raw_message():
    columns = provenance("topic", "partition", "offset", "ingest_ms")
    assert FRAUD.enriched.names[-4:] == tuple(columns)
    assert list(columns.values()) == ["topic", "partition", "offset", "ingest_ms"]
