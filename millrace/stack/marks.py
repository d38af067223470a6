"""Marks beside the records of processes: what the watcher leaves alone, and what it has given up."""

from pathlib import Path

from millrace.settings import Settings

GIVEN_UP, STAY_DEAD = ".given-up", ".stay-dead"


def left_dead_file(settings: Settings, name: str) -> Path:
    """Exists while a server stays dead until the next `up`."""
    return settings.run / f"{name}{STAY_DEAD}"


def given_up_file(settings: Settings, name: str) -> Path:
    """Exists when the watcher has restarted a server or a pattern's jobs too often."""
    return settings.run / f"{name}{GIVEN_UP}"


def given_up(settings: Settings) -> list[str]:
    """The servers and patterns that the watcher no longer restarts."""
    return sorted(path.name.removesuffix(GIVEN_UP) for path in settings.run.glob(f"*{GIVEN_UP}"))


def clear_marks(settings: Settings, name: str) -> None:
    """Let the watcher restart a server again."""
    left_dead_file(settings, name).unlink(missing_ok=True)
    given_up_file(settings, name).unlink(missing_ok=True)
