"""Readable: every message of an output is an object with the fields that its readers need."""

from __future__ import annotations

from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found


def readable(case: Case) -> Found:
    """The messages that are not such objects."""
    outputs = case.outputs.values()
    figures = {"messages": sum(len(each.events) for each in outputs)}
    return Found(figures, [place for each in outputs for place in each.unreadable])


CHECKER = Checker("readable", "Can every output message be read?", readable, needs_inputs=False, is_final=True)
