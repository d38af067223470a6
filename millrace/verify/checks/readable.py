"""Readable: every message of an output is an object with the fields that its readers need."""

from __future__ import annotations

from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found


def readable(case: Case) -> Found:
    """The messages of outputs that are no such objects."""
    outputs = case.outputs.values()
    figures = {"messages": sum(len(each.events) for each in outputs)}
    return Found(figures, [place for each in outputs for place in each.unreadable])


CHECKER = Checker("readable", "Can everything be read that came out?", readable, needs_inputs=False, is_final=True)
