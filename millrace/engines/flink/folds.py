"""The escape hatch: rules that are steps in plain Python, run inside the worker's JVM.

This module is what the worker's interpreter imports: it knows no engine. It takes and gives text, which costs less to
hand across than objects do.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from millrace.rules import FoldRule

Step = Callable[[Any, Mapping[str, Any], str], tuple[Any, Mapping[str, Any] | None]]


def steps_of(rules: Sequence[FoldRule]) -> str:
    """What a worker must know of the rules: where each step is, and which streams it wants."""
    return json.dumps(
        [
            {
                # A rule of another version may keep another state: it starts anew.
                "state": f"{rule.name} {rule.version}",
                "module": rule.step.__module__,
                "step": rule.step.__qualname__,
                "streams": [rule.on.name, *(stream.name for stream in rule.also)],
            }
            for rule in rules
        ]
    )


def fold_of(steps: str) -> Callable[[str | None, str, str], str]:
    """The function that a worker calls for each event of a key, with all rules' state as it was left the last time."""
    declared = [(each["state"], _step(each["module"], each["step"]), each["streams"]) for each in json.loads(steps)]

    def fold(memory: str | None, event_text: str, stream: str) -> str:
        states, event = json.loads(memory) if memory else {}, json.loads(event_text)
        kept, found = {}, []
        for name, step, streams in declared:
            state, operands = states.get(name), None
            if stream in streams:
                state, operands = step(state, event, stream)
            kept[name] = state
            found.append(None if operands is None else {key: _text(value) for key, value in operands.items()})
        return json.dumps({"state": json.dumps(kept), "found": found})

    return fold


def _step(module: str, name: str) -> Step:
    # Loaded anew for each job: a worker outlives many, and a step may have changed since it was imported for the last.
    spec = importlib.util.find_spec(module)
    if spec is None or spec.loader is None:
        raise ImportError(f"the worker finds no module {module}; a step must be importable from the project's folder")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    step: Any = loaded
    for part in name.split("."):
        step = getattr(step, part)
    found: Step = step
    return found


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)
