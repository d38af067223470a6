"""The jars of Storm, on which its servers and jobs run and against which its Java is compiled."""

from __future__ import annotations

from pathlib import Path

from millrace.engines.storm import ENGINE
from millrace.machine import jars
from millrace.settings import Settings


def compiled_against(settings: Settings) -> list[Path]:
    """The jars that its Java is compiled against."""
    return sorted(jars.folder(settings, ENGINE.name).glob("*.jar"))
