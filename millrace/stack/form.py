"""The form of a stack: its profiles and port base, kept from one command to the next."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from millrace.errors import InfraError
from millrace.machine import processes
from millrace.machine.processes import ProcessRecord
from millrace.servers.server import Server
from millrace.settings import Settings, remembered
from millrace.stack.services import NEEDED, PROFILES, Service, require_known, services
from millrace.whole_files import write_whole


def profiles_of(settings: Settings) -> list[str]:
    """The profiles with which the stack was last started."""
    return list(remembered(settings.state).get("profiles", []))


def remember(settings: Settings, profiles: Sequence[str]) -> None:
    """Keep port base and profiles for the verbs that follow."""
    write_whole(
        settings.state / "stack.json", json.dumps({"port_base": settings.port_base, "profiles": list(profiles)}) + "\n"
    )


def servers(settings: Settings) -> dict[str, Server]:
    """Every server of the stack in its form, by name."""
    known = services(settings, profiles_of(settings))
    return {server.name: server for service in known.values() for server in service.servers}


def servers_of(settings: Settings, names: Iterable[str] = NEEDED) -> frozenset[str]:
    """The names of the servers of these services, in the stack's form."""
    known = services(settings, profiles_of(settings))
    return frozenset(server.name for name in names for server in known[require_known(name, known)].servers)


def every_server(settings: Settings) -> set[str]:
    """The names of all servers in all forms."""
    forms = ([], *([profile] for profile in PROFILES))
    return {
        server.name for form in forms for service in services(settings, form).values() for server in service.servers
    }


def refuse_another_form(
    settings: Settings, known: Mapping[str, Service], recorded: Mapping[str, ProcessRecord]
) -> None:
    """Refuse other ports or profiles than those of the running servers, and another Kafka than that of deployments."""
    memory = remembered(settings.state)
    before = services(
        Settings(settings.project, settings.home, settings.state, memory.get("port_base", settings.port_base)),
        memory.get("profiles", []),
    )
    old = {server.name: server for service in before.values() for server in service.servers}
    new = {server.name: server for service in known.values() for server in service.servers}
    other = [
        name for name, one in recorded.items() if processes.alive(one) and name in old and old[name] != new.get(name)
    ]
    was = " and ".join(memory.get("profiles", [])) or "no profile"
    if other:
        raise InfraError(
            f"{', '.join(other)} run on ports from {memory.get('port_base')} with {was}; "
            "`millrace down` first, then start the stack in its other form; one broker and three have other data: tear "
            "patterns down with `--data` before"
        )
    if (data := _kafka(before)) != _kafka(known) and data[0].exists() and (left := _deployed(settings)):
        raise InfraError(
            f"{', '.join(left)}: the data is in the Kafka of the stack with {was}, and this form has another; start "
            "the stack as it was, `millrace teardown PATTERN --data`, `millrace down`, then start it in this form; or "
            "remove all data: `millrace down --purge`"
        )


def _kafka(known: Mapping[str, Service]) -> list[Path]:
    """Where the brokers keep their data."""
    return [server.data for server in known["kafka"].servers]


def _deployed(settings: Settings) -> list[str]:
    """The patterns whose data is kept; only they, and not the files of their jobs, have a lock."""
    found = (settings.state / "patterns").glob("*.json")
    return sorted(path.stem for path in found if path.with_suffix(".lock").exists())
