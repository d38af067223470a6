"""A use that this clone does not have: a copy of `fraud` under another name, in a project of its own."""

from __future__ import annotations

from pathlib import Path

from millrace.settings import PROJECT


def write_shop(project: Path) -> Path:
    """Write the use into a project, without patterns; return its folder."""
    fraud, use = PROJECT / "pipelines/fraud", project / "pipelines/shop"
    assert 'name="fraud"' in (fraud / "__init__.py").read_text()
    for path in (each.relative_to(fraud) for each in fraud.rglob("*.py")):
        text = (fraud / path).read_text()
        (use / path).parent.mkdir(parents=True, exist_ok=True)
        (use / path).write_text(text.replace("pipelines.fraud", "pipelines.shop").replace('"fraud"', '"shop"'))
    (use / "patterns").mkdir()
    return use
