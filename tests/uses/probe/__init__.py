"""A use that has every window and every measure, of events without an id."""

from pipelines.probe.rules import PROBE

__all__ = ["PROBE"]
