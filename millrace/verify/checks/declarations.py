"""Declarations: a verdict judges by what was deployed, now and earlier."""

from __future__ import annotations

from millrace.verify.case import Case
from millrace.verify.checking import Checker, Undecided


def declarations(case: Case) -> Undecided:
    """What the verdict would judge by, and no deployment shows."""
    found = tuple(case.question.undeployed)
    return Undecided("; ".join(found[:3]), {"offenders": len(found)}, found, is_settled=True)


CHECKER = Checker("declarations", "Are the declarations those of the deployments?", declarations, needs_inputs=False)
