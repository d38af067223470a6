"""PostgreSQL's programs, Debian's or those of a jar, and the user that runs them in place of root."""

import fcntl
import os
import pwd
import shutil
import tarfile
import zipfile
from pathlib import Path

from millrace.errors import InfraError
from millrace.machine import jars
from millrace.settings import Settings

DEBIAN = Path("/usr/lib/postgresql")
JAR = "postgres"  # the component of millrace/machine/jars


def debian(name: str) -> Path | None:
    """A program of the newest PostgreSQL that Debian installed, if there is one."""
    return max(DEBIAN.glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]), default=None)


def owner() -> pwd.struct_passwd:
    """The user that runs PostgreSQL in place of root: that of Debian's package, or `nobody`."""
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise InfraError("PostgreSQL refuses root, and /etc/passwd has neither postgres nor nobody; add one of them")


def as_owner() -> tuple[str, ...]:
    """The start of a command that PostgreSQL's owner runs in place of root."""
    if os.getuid() != 0:
        return ()
    return ("setpriv", f"--reuid={owner().pw_uid}", f"--regid={owner().pw_gid}", "--clear-groups")


def let_through(*folders: Path) -> None:
    """Lets another user go through folders that are for root alone; listing and reading them stays root's."""
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(folder.stat().st_mode | 0o011)


def closed_to_owner(folder: Path) -> Path | None:
    """The folder on the way that the owner cannot enter, if there is one."""

    def is_open(path: Path) -> bool:
        found = path.stat()
        return bool(found.st_mode & (0o100 if found.st_uid == owner().pw_uid else 0o001))

    ways = [path for path in (*reversed(folder.parents), folder) if path.exists()]
    return next((path for path in ways if not is_open(path)), None)


def unpacked(settings: Settings) -> Path:
    """Where the programs from the jar are: in the home, or beside the data where their owner cannot enter the home."""
    version = jars.folder(settings, JAR).name
    is_reachable = os.getuid() != 0 or not closed_to_owner(settings.home)
    return (settings.home / "postgres" if is_reachable else settings.state / "data" / "postgres-programs") / version


def unpack(settings: Settings) -> None:
    """Install the programs from the jar."""
    place = unpacked(settings)
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if place.exists():
            return
        arriving = place.with_name(".arriving")
        shutil.rmtree(arriving, ignore_errors=True)
        [jar] = jars.folder(settings, JAR).glob("*.jar")
        with zipfile.ZipFile(jar) as packed:
            [name] = [each for each in packed.namelist() if each.endswith(".txz")]
            with packed.open(name) as archive, tarfile.open(fileobj=archive, mode="r:xz") as programs:
                programs.extractall(
                    arriving
                )  # no filter: the lock has its SHA-256, and Debian 12's Python has no filter
        for path in (place.parent, arriving):
            path.chmod(0o755)  # independent of the umask: another user runs them
        arriving.rename(place)
