"""Uses that this clone does not have: copies of `fraud` under another name, in a project or a package of their own."""

from __future__ import annotations

from pathlib import Path

from millrace.settings import PROJECT

FRAUD = PROJECT / "pipelines/fraud"


def write_shop(project: Path) -> Path:
    """Write the use `shop` into a project, without patterns; return its folder."""
    return copy_of_fraud(project / "pipelines/shop", "pipelines.shop")


def copy_of_fraud(folder: Path, module: str, *patterns: str, use: str = "shop") -> Path:
    """Write a use with these patterns as the package of that module."""
    assert 'name="fraud"' in (FRAUD / "__init__.py").read_text()
    for path in FRAUD.rglob("*.py"):
        copy = folder / path.relative_to(FRAUD)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text().replace("pipelines.fraud", module).replace('"fraud"', f'"{use}"'))
    (folder / "patterns").mkdir()
    text = (FRAUD / "patterns/flink.yaml").read_text()
    for pattern in patterns:
        (folder / f"patterns/{pattern}.yaml").write_text(text.replace("use: fraud", f"use: {use}"))
    return folder
