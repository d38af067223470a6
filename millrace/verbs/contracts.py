"""The contracts of the project's uses: files that a review reads, and that `declare` keeps as the uses declare them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from millrace import project
from millrace.patterns.contracts import breaking_changes
from millrace.patterns.generated import contracts as declared
from millrace.stores.changes import Action, Change
from millrace.whole_files import write_whole


def contracts(*, plan: bool = False) -> list[Change]:
    """Write the contracts of the uses in pipelines/; with `plan` only compare them. Those of packages are theirs."""
    wanted = declared()
    changes = [_compared(path, text) for path, text in wanted.items()] + list(_left_over(wanted))
    if plan:
        return changes
    for change in changes:
        path = project.root() / change.name
        if change.action == "remove":
            path.unlink()
        elif change.action != "keep":
            write_whole(path, wanted[path])
            path.chmod(0o644)  # a source file like the patterns
    return changes


def _compared(path: Path, text: str) -> Change:
    before = path.read_text(encoding="utf-8") if path.is_file() else None
    action: Action = "create" if before is None else "keep" if before == text else "change"
    return Change("contract", _shown(path), action, "; ".join(_breaks(before, text)) if before else "")


def _breaks(before: str, now: str) -> list[str]:
    try:
        return breaking_changes(json.loads(before), json.loads(now))
    except ValueError:
        return []  # edited by hand, and no JSON any more


def _left_over(wanted: Mapping[Path, str]) -> Iterator[Change]:
    """Contracts of topics that no use declares any more."""
    for name in project.own_uses():
        for path in sorted((project.use_folder(name) / "contracts").glob("*.json")):
            if path not in wanted:
                yield Change("contract", _shown(path), "remove", "no topic has it")


def _shown(path: Path) -> str:
    return path.relative_to(project.root()).as_posix()
