"""Where Flink's own files are, and what its Java is compiled against."""

from __future__ import annotations

from pathlib import Path

from millrace.engines.flink import ENGINE
from millrace.machine import environments, jars
from millrace.settings import Settings


def package(settings: Settings) -> Path:
    """Flink itself: bin/, conf/, lib/ and opt/, as its wheel brings them."""
    return environments.site_packages(settings, ENGINE.name) / "pyflink"


def compiled_against(settings: Settings) -> list[Path]:
    """The jars that its Java is compiled against."""
    return [
        *sorted((package(settings) / "lib").glob("*.jar")),
        *sorted((package(settings) / "opt").glob("flink-python-*.jar")),
        *sorted(jars.folder(settings, "flink").glob("*.jar")),
    ]
