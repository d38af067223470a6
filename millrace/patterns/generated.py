"""The files that `python -m millrace.patterns` writes in this clone; those of a project are written by `declare`."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from millrace import project
from millrace.patterns.contracts import contracts_of
from millrace.patterns.model import json_schema


def generated() -> dict[Path, str]:
    """File -> content: the schema of pattern files, and the contracts."""
    return {Path(str(resources.files("millrace.patterns"))) / "schema.json": _text(json_schema())} | contracts()


def contracts() -> dict[Path, str]:
    """File -> content: the contracts of each use in pipelines/."""
    return {
        project.use_folder(name) / "contracts" / f"{kind}.json": _text(schema)
        for name, use in project.own_uses().items()
        for kind, schema in contracts_of(use).items()
    }


def _text(content: Any) -> str:
    return json.dumps(content, indent=2) + "\n"
