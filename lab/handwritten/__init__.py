"""The rules of fraud as one writes them by hand for an engine: the measure of the declared ones."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from millrace import kernel, registry
from millrace.settings import Settings

FOLDER = Path(__file__).resolve().parent
SHARED = FOLDER / "shared"


def libraries(settings: Settings, engine: str) -> list[Path]:
    """The engine's own jars: the declared job runs on the same."""
    found: list[Path] = registry.manifest(engine).module("libraries").compiled_against(settings)
    return found


def ensure(settings: Settings, engine: str) -> Path:
    """The jar of an engine's program."""
    own = libraries(settings, engine)
    return built(settings, engine, [(root, own) for root in (SHARED, FOLDER / engine)])


def built(settings: Settings, name: str, parts: Sequence[tuple[Path, Sequence[Path]]]) -> Path:
    """The jar of folders of sources, compiled if these were never compiled against these jars."""
    against = [[jar.name for jar in own] for _, own in parts]
    digest = hashlib.sha256(repr((kernel.OPTIONS, against)).encode())
    for path in sorted(path for root, _ in parts for path in root.rglob("*.java")):
        digest.update(path.read_bytes())
    jar = settings.home / "handwritten" / name / digest.hexdigest()[:32] / f"{name}.jar"
    if not jar.exists():
        jar.parent.mkdir(parents=True, exist_ok=True)
        kernel.build(parts, jar)
    return jar
