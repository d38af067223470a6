"""The rules of fraud as one writes them by hand for an engine: the measure of the declared ones."""

from __future__ import annotations

import hashlib
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
    """The jar of an engine's program, compiled if these sources were never compiled against its jars."""
    own = libraries(settings, engine)
    digest = hashlib.sha256(repr((kernel.OPTIONS, [jar.name for jar in own])).encode())
    roots = (SHARED, FOLDER / engine)
    for path in sorted(path for root in roots for path in root.rglob("*.java")):
        digest.update(path.read_bytes())
    jar = settings.home / "handwritten" / engine / digest.hexdigest()[:32] / "handwritten.jar"
    if not jar.exists():
        jar.parent.mkdir(parents=True, exist_ok=True)
        kernel.build([(root, own) for root in roots], jar)
    return jar
