"""A use that has every window and every measure, of events without an id."""

from .rules import PROBE

__all__ = ["PROBE"]
