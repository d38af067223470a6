"""The stack as a service of systemd: `up` at each boot, `down` at each shutdown. The watcher does the rest."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from millrace.errors import InfraError
from millrace.settings import Settings

STARTS_WITHIN_S, STOPS_WITHIN_S = 900, 300


def unit(settings: Settings, environ: Mapping[str, str]) -> str:
    """The text of the unit: the same program, the same stack, and the PATH of now, which has Java on it."""
    variables = {**settings.environment(), "PATH": environ.get("PATH", "")}
    variables |= {name: environ[name] for name in ("JAVA_HOME", "MILLRACE_TARGET") if name in environ}
    program = " ".join(map(_quoted, (sys.executable, "-m", "millrace.cli")))
    lines = [
        "[Unit]",
        f"Description=millrace, the stack of {settings.state}".replace("%", "%%"),
        "",
        "[Service]",
        "Type=oneshot",
        "RemainAfterExit=yes",
        *(f"Environment={_quoted(f'{name}={value}')}" for name, value in variables.items()),
        f"ExecStart={program} up".replace("$", "$$"),
        f"ExecStop={program} down".replace("$", "$$"),
        f"TimeoutStartSec={STARTS_WITHIN_S}",
        f"TimeoutStopSec={STOPS_WITHIN_S}",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    return "\n".join(lines) + "\n"


def place(settings: Settings, environ: Mapping[str, str]) -> Path:
    """The file of the unit, among those of the user; two stacks of a user differ in their ports."""
    config = Path(environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".config")
    return config / "systemd" / "user" / f"millrace-{settings.port_base}.service"


def install(settings: Settings, environ: Mapping[str, str] = os.environ) -> Path:
    """Write the unit; nothing is started."""
    path = place(settings, environ)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(unit(settings, environ), encoding="utf-8")
    return path


def uninstall(settings: Settings, environ: Mapping[str, str] = os.environ) -> Path:
    """Remove the unit; what runs goes on."""
    path = place(settings, environ)
    if not path.exists():
        raise InfraError(f"there is no {path}; `millrace service install` writes it")
    path.unlink()
    return path


def _quoted(text: str) -> str:
    """A word as systemd reads it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
