"""Where Spark's own files are, and what its Java is compiled against."""

from __future__ import annotations

from pathlib import Path

from millrace.engines.spark import ENGINE
from millrace.machine import environments, jars
from millrace.settings import Settings


def package(settings: Settings) -> Path:
    """Spark itself: bin/, jars/ and sbin/, as its wheel brings them."""
    return environments.site_packages(settings, ENGINE.name) / "pyspark"


def compiled_against(settings: Settings) -> list[Path]:
    """The jars that its Java is compiled against."""
    return [*sorted((package(settings) / "jars").glob("*.jar")), *sorted(jars.folder(settings, "spark").glob("*.jar"))]
