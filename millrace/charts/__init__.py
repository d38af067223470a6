"""The charts of the live page and of reports: ES modules for a browser, without a build step.

The live page loads them from its server. A report has no server: it holds them as text.
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
IMPORTED = re.compile(r'(?<=")(\./|\.\./assets/)([\w.]+\.js)(?=";)')

PACKAGES = "dashboard"
"""The component of npm with the library that draws, and what else the live page loads."""

# A report holds its scripts as text. In a sandbox they have no origin, and they reach no server.
REPORT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data:; "
    "sandbox allow-scripts"
)


@dataclass(frozen=True)
class Inlined:
    """A module with all that it imports, or nothing, and its styles."""

    module: str
    style: str


def inlined(name: str, assets: Path | None) -> Inlined:
    """A module for a page that loads nothing. Without `assets`, which has the libraries, there is no module."""
    own = (HERE / "charts.css").read_text(encoding="utf-8")
    if assets is None:
        return Inlined("", own)
    return Inlined(_with_imports(HERE / name, assets), (assets / "uPlot.css").read_text(encoding="utf-8") + own)


def _with_imports(path: Path, assets: Path) -> str:
    """The text of a module; the address of each import is the imported text itself."""

    def address(found: re.Match[str]) -> str:
        imported = _with_imports((HERE if found[1] == "./" else assets) / found[2], assets)
        return f"data:text/javascript;base64,{b64encode(imported.encode()).decode()}"

    return IMPORTED.sub(address, path.read_text(encoding="utf-8"))
