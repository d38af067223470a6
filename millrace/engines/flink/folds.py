"""The escape hatch: rules that are steps in plain Python, run inside the worker's JVM.

The worker's interpreter imports this module, so it imports no engine. Arguments and results are text, which crosses the
border between Java and Python at a lower cost than objects.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

from millrace.kept import imports
from millrace.rules import FoldRule
from millrace.rules.containers import require_plain

Step = Callable[[Any, Mapping[str, Any], str], tuple[Any, Mapping[str, Any] | None]]


def steps_of(rules: Sequence[FoldRule], declared: str) -> str:
    """The rules as a worker needs them: the place of each step, in a copy if one is declared, and its streams."""
    return json.dumps(
        [
            {
                "state": rule.state,
                "module": rule.step.__module__,
                "step": rule.step.__qualname__,
                "declared": declared,
                "streams": [rule.on.name, *(stream.name for stream in rule.also)],
            }
            for rule in rules
        ]
    )


def fold_of(steps: str) -> Callable[[str | None, str, str], str]:
    """The function that a worker calls for each event of a key, with the state of all rules after the last one."""
    declared = [
        (each["state"], _step(each["module"], each["step"], each.get("declared", "")), each["streams"])
        for each in json.loads(steps)
    ]

    def fold(memory: str | None, event_text: str, stream: str) -> str:
        states, event = json.loads(memory) if memory else {}, json.loads(event_text)
        kept, found = {}, []
        for name, step, streams in declared:
            state, operands = states.get(name), None
            if stream in streams:
                state, operands = step(state, event, stream)
                require_plain(f"rule '{name}'", state)
            kept[name] = state
            found.append(None if operands is None else {key: _text(value) for key, value in operands.items()})
        return json.dumps({"state": json.dumps(kept), "found": found})

    return fold


def _step(module: str, name: str, declared: str) -> Step:
    # Loaded again for each job: a worker outlives many jobs, and a step may have changed since the last one.
    with imports(Path(declared)) if declared else nullcontext():
        loaded = _loaded(module)
    step: Any = loaded
    for part in name.split("."):
        step = getattr(step, part)
    found: Step = step
    return found


def _loaded(module: str) -> ModuleType:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.loader is None:
        raise ImportError(f"{module}: not found on the worker; a step must be importable from the project's folder")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)
