"""Enrichment: accepted events carry what the oracle adds to them, in every copy."""

from __future__ import annotations

from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found, Undecided
from millrace.verify.evidence import ENRICHED

READ_APART = "the state of a rule's step rests on the order of two streams, which may have been another"


def enrichment(case: Case) -> Found | Undecided:
    """The enriched events that no admissible order of arrival explains."""
    expected = case.expected
    figures = {"compared": len(expected.accepted.keys() & case.copies.keys()), "races": expected.raced}
    offenders = [*expected.wrong, *case.too_many_races(expected.raced, CHECKER.name)]
    if expected.doubtful and not offenders:
        return Undecided(READ_APART, figures, tuple(expected.doubtful))
    return Found(figures, offenders, is_settled=True)


CHECKER = Checker("enrichment", "Does every enriched event match the oracle's?", enrichment, needs=(ENRICHED,))
