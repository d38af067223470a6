"""Readable: every message of an output is an object with the fields that its readers need, and with no other."""

from __future__ import annotations

from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found


def readable(case: Case) -> Found:
    """The messages that are not such objects, and what else of them is not as declared."""
    outputs = case.outputs.values()
    figures = {"messages": sum(len(each.events) for each in outputs)}
    return Found(figures, [found for each in outputs for found in (*each.unreadable, *each.faults)])


CHECKER = Checker(
    "readable", "Can every output message be read, and is it as declared?", readable, needs_inputs=False, is_final=True
)
