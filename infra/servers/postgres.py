"""PostgreSQL, as Debian packages it: Airflow's database where SQLite will not do."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from infra.errors import InfraError
from infra.servers.server import Preparation, Server
from infra.settings import Settings

DEBIAN = Path("/usr/lib/postgresql")
ROLE, DATABASE = "airflow", "postgres"


@dataclass(frozen=True)
class Postgres(Server):
    """One server behind a socket in its own folder, which only its owner may open: no port and no password."""

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

    def preparation(self) -> Preparation:
        owned = [("chown", "postgres:", str(self.data))] if as_owner() else []
        words = ("-D", str(self.data), "-U", ROLE, "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8")
        return Preparation(self.data, (*owned, (*as_owner(), str(program("initdb")), *words)))

    def command(self) -> list[str]:
        folders = f'"{self.data}"'  # a list of one, quoted: the name may hold spaces and commas
        options = {"listen_addresses": "", "unix_socket_directories": folders, "unix_socket_permissions": "0700"}
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        return [*as_owner(), str(program("postgres")), "-D", str(self.data), *words]

    def is_ready(self, since: float) -> bool:
        asked = [str(program("pg_isready")), "-q", "-h", str(self.data), "-U", ROLE]
        return subprocess.run(asked, stdin=subprocess.DEVNULL).returncode == 0


def url(settings: Settings, driver: str) -> str:
    """The address of the database for SQLAlchemy."""
    return f"postgresql+{driver}://{ROLE}@/{DATABASE}?host={quote(str(Postgres(settings).data), safe='')}"


def as_owner() -> tuple[str, ...]:
    """PostgreSQL refuses to be run by root, who becomes the user of Debian's package."""
    drop = ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups")
    return drop if os.getuid() == 0 else ()


def program(name: str) -> Path:
    """A program of the newest PostgreSQL that Debian installed."""
    found = sorted(DEBIAN.glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    if not found:
        raise InfraError(f"no PostgreSQL below {DEBIAN}; `apt-get install postgresql`, or leave the profile out")
    return found[-1]
