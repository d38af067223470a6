"""Enrichment: accepted events carry what the oracle adds to them, in every copy."""

from __future__ import annotations

from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found
from millrace.verify.evidence import ENRICHED


def enrichment(case: Case) -> Found:
    """The enriched events that no admissible order of arrival explains."""
    expected = case.expected
    figures = {"compared": len(expected.accepted.keys() & case.copies.keys()), "races": expected.raced}
    return Found(figures, [*expected.wrong, *case.too_many_races(expected.raced, CHECKER.name)], is_settled=True)


CHECKER = Checker("enrichment", "Does every enriched event match the oracle's?", enrichment, needs=(ENRICHED,))
