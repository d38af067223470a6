"""PostgreSQL, Debian's or the one in a jar: Airflow's database where SQLite will not do."""

import ctypes
import fcntl
import os
import pwd
import shutil
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from millrace.errors import InfraError
from millrace.machine import jars
from millrace.servers.server import Preparation, Server
from millrace.settings import Settings

DEBIAN = Path("/usr/lib/postgresql")
JAR = "postgres"  # the component of millrace/machine/jars
ROLE, DATABASE = "airflow", "postgres"
PQPING_OK = 0


@dataclass(frozen=True)
class Postgres(Server):
    """One server behind a socket in its own folder, which only its owner may open: no port and no password."""

    components: ClassVar[tuple[str, ...]] = (JAR,)

    @property
    def name(self) -> str:
        return "postgres"

    @property
    def doors(self) -> Mapping[str, int]:
        return {}

    @property
    def address(self) -> str:
        return str(self.data)

    @property
    def log(self) -> Path:
        return self.output  # it prints its log and does not rotate it

    def unpack(self) -> None:
        if os.getuid() == 0:
            let_through(self.settings.state, self.data.parent)
        if os.getuid() == 0 and (closed := closed_to_owner(self.settings.state)):
            raise InfraError(
                f"PostgreSQL refuses root, and {owner().pw_name}, who runs it instead, cannot enter {closed}; "
                "point MILLRACE_STATE at a folder that all may enter, or start the stack as another user"
            )
        if not debian("postgres"):
            unpack(self.settings)

    def preparation(self) -> Preparation:
        owned = [("chown", f"{owner().pw_uid}:{owner().pw_gid}", str(self.data))] if as_owner() else []
        words = ("-D", str(self.data), "-U", ROLE, "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8")
        # Half of what initdb writes looks like the whole; but only a started server writes this file.
        commands = (*owned, (*as_owner(), self._program("initdb"), *words))
        return Preparation(self.data, commands, whole={"postmaster.opts": b"postgres"})

    def command(self) -> list[str]:
        folders = f'"{self.data}"'  # a list of one, quoted: the name may hold spaces and commas
        options = {"listen_addresses": "", "unix_socket_directories": folders, "unix_socket_permissions": "0700"}
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        return [*as_owner(), self._program("postgres"), "-D", str(self.data), *words]

    def is_ready(self, since: float) -> bool:
        # What pg_isready does, which the jar lacks.
        ours = Path(self._program("postgres")).parent.parent / "lib" / "libpq.so.5"
        libpq = ctypes.CDLL(str(ours) if ours.exists() else ours.name)
        host = str(self.data).replace("\\", "\\\\").replace("'", "\\'")
        address = f"host='{host}' user={ROLE} dbname={DATABASE} connect_timeout=2"
        return bool(libpq.PQping(os.fsencode(address)) == PQPING_OK)

    def _program(self, name: str) -> str:
        return str(debian(name) or unpacked(self.settings) / "bin" / name)


def url(settings: Settings, driver: str) -> str:
    """The address of the database for SQLAlchemy."""
    return f"postgresql+{driver}://{ROLE}@/{DATABASE}?host={quote(str(Postgres(settings).data), safe='')}"


def debian(name: str) -> Path | None:
    """A program of the newest PostgreSQL that Debian installed, if there is one."""
    return max(DEBIAN.glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]), default=None)


def owner() -> pwd.struct_passwd:
    """The user that runs PostgreSQL in place of root: that of Debian's package, or the one that owns nothing."""
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
                programs.extractall(arriving)  # no filter: the lock vouches for it, and Debian 12 has none
        for path in (place.parent, arriving):
            path.chmod(0o755)  # whatever the umask: another user runs them
        arriving.rename(place)
