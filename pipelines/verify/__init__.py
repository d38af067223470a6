"""Proof that a pattern works: pure functions from what was read back to a verdict."""

from pipelines.verify.evidence import Bounds, Evidence, InForce
from pipelines.verify.judging import Asked, judge
from pipelines.verify.latency import Latency
from pipelines.verify.verdict import Check, Promise, Verdict

__all__ = ["Asked", "Bounds", "Check", "Evidence", "InForce", "Latency", "Promise", "Verdict", "judge"]
