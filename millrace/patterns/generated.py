"""The files that `python -m millrace.patterns` writes, and that a test keeps fresh."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from millrace import project
from millrace.patterns.contracts import contracts_of
from millrace.patterns.model import json_schema


def generated() -> dict[Path, str]:
    """File -> content: the schema of pattern files, and the contracts of each use."""
    files = {Path(str(resources.files("millrace.patterns"))) / "schema.json": _text(json_schema())}
    for use in project.uses().values():
        folder = project.use_folder(use.name)
        for kind, schema in contracts_of(use).items():
            files[folder / "contracts" / f"{kind}.json"] = _text(schema)
    return files


def _text(content: Any) -> str:
    return json.dumps(content, indent=2) + "\n"
