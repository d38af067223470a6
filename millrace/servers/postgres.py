"""PostgreSQL, Debian's or the one in a jar: Airflow's database where SQLite will not do."""

import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from millrace.errors import InfraError
from millrace.machine import postgresql
from millrace.servers.server import Preparation, Server
from millrace.settings import Settings

ROLE, DATABASE = "airflow", "postgres"
PQPING_OK = 0


@dataclass(frozen=True)
class Postgres(Server):
    """One server behind a socket in its own folder, which only its owner may open: no port and no password."""

    components: ClassVar[tuple[str, ...]] = (postgresql.JAR,)

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
            postgresql.let_through(self.settings.state, self.data.parent)
        if os.getuid() == 0 and (closed := postgresql.closed_to_owner(self.settings.state)):
            user = postgresql.owner().pw_name
            raise InfraError(
                f"PostgreSQL refuses root, and {user}, who runs it instead, cannot enter {closed}; "
                "point MILLRACE_STATE at a folder that all may enter, or start the stack as another user"
            )
        if not postgresql.debian("postgres"):
            postgresql.unpack(self.settings)

    def preparation(self) -> Preparation:
        owned = []
        if postgresql.as_owner():
            user = postgresql.owner()
            owned = [("chown", f"{user.pw_uid}:{user.pw_gid}", str(self.data))]
        words = ("-D", str(self.data), "-U", ROLE, "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8")
        # Half of what initdb writes looks like the whole; but only a started server writes this file.
        commands = (*owned, (*postgresql.as_owner(), self._program("initdb"), *words))
        return Preparation(self.data, commands, whole={"postmaster.opts": b"postgres"})

    def command(self) -> list[str]:
        folders = f'"{self.data}"'  # a list of one, quoted: the name may hold spaces and commas
        options = {"listen_addresses": "", "unix_socket_directories": folders, "unix_socket_permissions": "0700"}
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        return [*postgresql.as_owner(), self._program("postgres"), "-D", str(self.data), *words]

    def is_ready(self, since: float) -> bool:
        # What pg_isready does, which the jar lacks.
        ours = Path(self._program("postgres")).parent.parent / "lib" / "libpq.so.5"
        libpq = ctypes.CDLL(str(ours) if ours.exists() else ours.name)
        host = str(self.data).replace("\\", "\\\\").replace("'", "\\'")
        address = f"host='{host}' user={ROLE} dbname={DATABASE} connect_timeout=2"
        return bool(libpq.PQping(os.fsencode(address)) == PQPING_OK)

    def _program(self, name: str) -> str:
        return str(postgresql.debian(name) or postgresql.unpacked(self.settings) / "bin" / name)


def url(settings: Settings, driver: str) -> str:
    """The address of the database for SQLAlchemy."""
    return f"postgresql+{driver}://{ROLE}@/{DATABASE}?host={quote(str(Postgres(settings).data), safe='')}"
