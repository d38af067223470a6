"""Sensors that overheat: an example to replace."""

from .rules import MY_USE

__all__ = ["MY_USE"]
