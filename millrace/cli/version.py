"""millrace --version."""

from importlib import metadata
from pathlib import Path

import typer

from millrace import records
from millrace.settings import PACKAGE


def print_version(wanted: bool) -> None:
    """Print the version and exit, for --version."""
    if wanted:
        print(described(metadata.version("millrace"), PACKAGE.parent))
        raise typer.Exit


def described(version: str, clone: Path) -> str:
    """The version, with the commit of a clone."""
    commit = records.commit(clone) if (clone / ".git").exists() else None
    return f"millrace {version} ({commit})" if commit else f"millrace {version}"
