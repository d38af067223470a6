"""An alert for people: the sentence of its rule with the values in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millrace.patterns import Variant
    from millrace.rules.rules import Rule


def rules_of(variant: Variant) -> dict[str, Rule]:
    """The rules of a pattern by name."""
    return {rule.name: rule for rule in (*variant.event_rules, *variant.window_rules)}


def why(alert: Mapping[str, Any], rules: Mapping[str, Rule]) -> str:
    """Why an alert was raised; an alert of another version of its rule shows its operands."""
    rule, operands = rules.get(alert["rule"]), alert["operands"] or {}
    if rule is None or rule.version != alert["rule_version"]:
        return ", ".join(f"{name} {each}" for name, each in operands.items())
    return rule.explained(operands)
