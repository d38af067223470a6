"""`python -m millrace.patterns` writes the generated files: the pattern files' schema, the uses, the contracts."""

from __future__ import annotations

import json

from millrace.patterns.contracts import contracts, contracts_folder
from millrace.patterns.model import generated, json_schema
from millrace.patterns.uses import uses


def main() -> None:
    """Write every generated file."""
    (generated() / "schema.json").write_text(json.dumps(json_schema(), indent=2) + "\n", encoding="utf-8")
    (generated() / "uses.json").write_text(json.dumps(uses(), indent=2) + "\n", encoding="utf-8")
    for use, by_name in contracts().items():
        target = contracts_folder(use)
        target.mkdir(parents=True, exist_ok=True)
        for name, schema in by_name.items():
            (target / f"{name}.json").write_text(json.dumps(schema, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
