"""Proof that a pattern works: pure functions from what was read back to a verdict."""

from millrace.verify.case import Question
from millrace.verify.evidence import Bounds, Evidence, Versions
from millrace.verify.judging import judge
from millrace.verify.latency import Latency
from millrace.verify.verdict import Check, Promise, Verdict

__all__ = ["Bounds", "Check", "Evidence", "Latency", "Promise", "Question", "Verdict", "Versions", "judge"]
