"""One stack of real servers: started in the order of their needs, waited for by asking them, stopped by pid."""

import fcntl
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from millrace import records
from millrace.engines.flink import servers as flink
from millrace.errors import InfraError
from millrace.machine import environments, jars, prerequisites, processes
from millrace.machine.processes import Record
from millrace.servers import airflow, hdfs
from millrace.servers.server import LOOPBACK, Server
from millrace.settings import Settings, remembered
from millrace.stack.rise import Report, Rise, stop_all
from millrace.stack.services import DEFAULT, PROFILES, Service, servers_named, services, with_needs

WATCH = "watch"
"""The process that restarts what dies: millrace/verbs/watch.py."""
GIVEN_UP, STAY_DEAD = ".given-up", ".stay-dead"
LOCK_WITHIN_S = 600
ASKED_FOR_S = 2


@dataclass(frozen=True)
class ServerStatus:
    """How one server is."""

    name: str
    service: str
    state: str  # running | starting | unready (it runs and does not answer) | dead | given-up (and dead) | stopped
    address: str
    web: str
    pid: int | None
    memory_bytes: int | None
    since: float | None  # seconds of the epoch: when it was started
    error: str  # the last error line of its log, if it died
    log: Path


@dataclass(frozen=True)
class WatchStatus:
    """How the watcher is."""

    state: str  # running | dead | stopped (nothing restarts what dies)
    pid: int | None
    given_up: list[str]
    """Servers and patterns that it restarts no more."""

    @property
    def is_well(self) -> bool:
        return self.state != "dead" and not self.given_up


def up(
    settings: Settings,
    names: Sequence[str] = (),
    profiles: Sequence[str] | None = None,
    report: Report = lambda *_: None,
    progress: jars.Progress | None = None,
) -> None:
    """Makes services run, those of the default stack if none is named: starts what is missing or died, adopts the rest.

    Without `profiles` the stack keeps the form it had.
    """
    began = time.monotonic()
    with only_one(settings, "up", report):
        cap_logs(settings)
        profiles = profiles_of(settings) if profiles is None else profiles
        known = services(settings, profiles)
        recorded = processes.records(settings.run)
        refuse_another_form(settings, known, recorded)
        wanted = with_needs(known, names or by_default(known, recorded))
        servers = {server.name: server for service in wanted for server in service.servers}
        absent = [server for name, server in servers.items() if not is_alive(recorded.get(name))]
        if absent:
            bring(settings, wanted, report, progress)
            for old in (recorded[server.name] for server in absent if server.name in recorded):
                processes.stop(old, within_s=1)  # what a killed server started may hold its ports
            refuse_used_ports(settings, absent)
        remember(settings, profiles)
        for name in servers:
            left_dead_file(settings, name).unlink(missing_ok=True)
            given_up_file(settings, name).unlink(missing_ok=True)
        Rise(settings, servers, report).run()
        if absent:
            record_the_start(settings, [service.name for service in wanted], absent, time.monotonic() - began)


def down(settings: Settings, purge: bool = False, report: Report = lambda *_: None) -> None:
    """Stops all that was recorded, what needs others first; with `purge` removes what the stack wrote, too."""
    began = time.monotonic()
    with only_one(settings, "down", report):
        if watch := processes.read(settings.run / f"{WATCH}.json"):
            stop_all(settings, {WATCH: watch}, (), report)  # first, or it would restart what is stopped
        recorded = processes.records(settings.run)
        figures = {"memory_bytes": memory_of(recorded), "servers": sorted(recorded)}
        stop_all(settings, recorded, every_server(settings), report)
        if recorded:
            records.append(settings, "down", figures | {"seconds": round(time.monotonic() - began, 1)})
        for mark in (*settings.run.glob(f"*{GIVEN_UP}"), *settings.run.glob(f"*{STAY_DEAD}")):
            if mark.name.removesuffix(GIVEN_UP) in recorded or mark.name.endswith(STAY_DEAD):
                mark.unlink(missing_ok=True)  # of servers: what was given up of a pattern is for `deploy`
        if purge:
            for path in purged(settings):
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
            report("data", "removed")


def purged(settings: Settings) -> list[Path]:
    """What `down` with `purge` removes of a stack's files."""
    paths = (
        settings.state / name
        for name in ("conf", "data", "logs", "patterns", "python", "run", "stack.json", "watch.jsonl")
    )
    return [path for path in paths if path.exists()]


def restart(settings: Settings, names: Sequence[str], report: Report = lambda *_: None) -> None:
    """Stops the named servers or services and starts them again, with today's configuration."""
    known = services(settings, profiles_of(settings))
    named = {server.name for server in servers_named(known, names)}
    with only_one(settings, "restart", report):
        recorded = {name: one for name, one in processes.records(settings.run).items() if name in named}
        stop_all(settings, recorded, every_server(settings), report)
    touched = [service.name for service in known.values() if named & {server.name for server in service.servers}]
    up(settings, touched, report=report)


def kill(
    settings: Settings, names: Sequence[str], report: Report = lambda *_: None, *, stay_dead: bool = False
) -> None:
    """Ends the named servers as a crash would, for drills; with `stay_dead` the watcher leaves them to `up`."""
    recorded = processes.records(settings.run)
    for server in servers_named(services(settings, profiles_of(settings)), names):
        record = recorded.get(server.name)
        if record is None or not processes.alive(record):
            raise InfraError(f"{server.name} does not run; `millrace status` shows what does")
        if stay_dead:
            left_dead_file(settings, server.name).touch()
        processes.kill(record)
        report(server.name, f"killed (pid {record.pid})")


def restart_dead(settings: Settings, server: Server) -> bool:
    """Starts a dead server again, without waiting until it is ready; False while another command changes the stack."""
    ensure_private(settings.state)
    with (settings.state / "lock").open("a+") as lock:
        if not locked(lock.fileno()):
            return False
        record = processes.records(settings.run).get(server.name)
        if record is None or processes.alive(record):
            return False  # stopped or started since the caller looked
        processes.stop(record, within_s=1)  # what it started may hold its ports
        return Rise(settings, {server.name: server}, lambda *_: None).start(server) is not None


def servers(settings: Settings) -> dict[str, Server]:
    """Every server of the stack's form, by name."""
    known = services(settings, profiles_of(settings))
    return {server.name: server for service in known.values() for server in service.servers}


def default_servers(settings: Settings) -> set[str]:
    """The names of the servers that every pattern may need, in the stack's form."""
    known = services(settings, profiles_of(settings))
    return {server.name for name in DEFAULT for server in known[name].servers}


def left_dead_file(settings: Settings, name: str) -> Path:
    """There while a server is to stay dead until the next `up`."""
    return settings.run / f"{name}{STAY_DEAD}"


def given_up_file(settings: Settings, name: str) -> Path:
    """There when the watcher has restarted a server or a pattern's jobs too often."""
    return settings.run / f"{name}{GIVEN_UP}"


def status(settings: Settings) -> list[ServerStatus]:
    """How every server of the default stack is, and every other that was started."""
    cap_logs(settings)
    recorded = processes.records(settings.run)
    shown = [
        (service.name, server)
        for service in services(settings, profiles_of(settings)).values()
        for server in service.servers
        if service.name in DEFAULT or server.name in recorded
    ]
    with ThreadPoolExecutor(max_workers=len(shown)) as pool:
        return list(pool.map(lambda one: status_of(one[0], one[1], recorded.get(one[1].name)), shown))


def watch_status(settings: Settings) -> WatchStatus:
    """How the watcher is, and what it has given up."""
    record = processes.read(settings.run / f"{WATCH}.json")
    state = "stopped" if record is None else "running" if processes.alive(record) else "dead"
    given_up = sorted(path.name.removesuffix(GIVEN_UP) for path in settings.run.glob(f"*{GIVEN_UP}"))
    return WatchStatus(state, record.pid if record and state == "running" else None, given_up)


def status_of(service: str, server: Server, record: Record | None) -> ServerStatus:
    """How one server is, asked now."""
    running = record if record and processes.alive(record) else None
    state = state_of(server, record, running)
    error = last_error(server) if state == "dead" else ""
    if state == "dead" and given_up_file(server.settings, server.name).exists():
        state, error = "given-up", f"{error}; mend the cause, then `millrace up`"
    return ServerStatus(
        name=server.name,
        service=service,
        state=state,
        address=server.address,
        web=server.web,
        pid=running.pid if running else None,
        memory_bytes=processes.memory_bytes(running) if running else None,
        since=record.since if record else None,
        error=error,
        log=server.log,
    )


def state_of(server: Server, record: Record | None, running: Record | None) -> str:
    if record is None:
        return "stopped"
    if running is None:
        return "dead"
    # Probed for a moment longer: one that is busy answers late, and a single late answer is no news.
    if processes.wait_until(lambda: server.is_ready(running.since), ASKED_FOR_S):
        return "running"
    return "starting" if time.time() - running.since < server.within_s else "unready"


def last_error(server: Server) -> str:
    """The last line of a server's logs that speaks of an error."""
    lines = [line for log in (server.log, server.output) for line in processes.tail(log, 200)]
    errors = [line for line in lines if any(word in line for word in ("ERROR", "FATAL", "Exception", "Error:"))]
    return errors[-1].strip() if errors else "its log speaks of no error; it may have been killed"


def logs(settings: Settings, names: Sequence[str]) -> dict[str, list[Path]]:
    """The logs of the named servers or services, or of all that have one: what they log, then what they print."""
    known = services(settings, profiles_of(settings))
    named = servers_named(known, names or known)
    found = {server.name: list(dict.fromkeys((server.log, server.output))) for server in named}
    return found if names else {name: some for name, some in found.items() if any(log.exists() for log in some)}


def addresses(settings: Settings) -> dict[str, str]:
    """Where clients find everything, as environment variables."""
    known = services(settings, profiles_of(settings))
    spark = f"spark://{LOOPBACK}:{settings.port('spark')}" if known["spark"].servers else "local[2]"
    flink_home = settings.state / "conf" / "flink"
    return settings.environment() | {
        "KAFKA_BOOTSTRAP": ",".join(broker.address for broker in known["kafka"].servers),
        "HDFS_URI": hdfs.uri(settings),
        "WEBHDFS_URL": f"http://{LOOPBACK}:{settings.port('webhdfs')}",
        "HADOOP_CONF_DIR": str(settings.state / "conf" / "namenode"),
        "HBASE_THRIFT_HOST": LOOPBACK,
        "HBASE_THRIFT_PORT": str(settings.port("hbase-thrift")),
        "FLINK_REST_URL": flink.rest_url(settings),
        "FLINK_GATEWAY": str(flink.gateway_socket(settings)),
        "FLINK_HOME": str(flink_home),
        "FLINK_CONF_DIR": str(flink_home / "conf"),
        "SPARK_MASTER": spark,
        "AIRFLOW_URL": airflow.url(settings),
        "AIRFLOW_HOME": str(settings.state / "data" / "airflow"),
    }


def by_default(known: Mapping[str, Service], recorded: Mapping[str, Record]) -> list[str]:
    """The default stack, and what was started beside it: it was asked for."""
    return [
        name
        for name, service in known.items()
        if name in DEFAULT or any(server.name in recorded for server in service.servers)
    ]


def profiles_of(settings: Settings) -> list[str]:
    """The profiles that the stack was last started with."""
    return list(remembered(settings.state).get("profiles", []))


def remember(settings: Settings, profiles: Sequence[str]) -> None:
    """Keeps port base and profiles for the verbs that follow."""
    path = settings.state / "stack.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    arriving = path.with_suffix(".arriving")
    arriving.write_text(json.dumps({"port_base": settings.port_base, "profiles": list(profiles)}) + "\n")
    arriving.replace(path)


def refuse_another_form(settings: Settings, known: Mapping[str, Service], recorded: Mapping[str, Record]) -> None:
    """Refuses ports or profiles that what runs was not started with."""
    memory = remembered(settings.state)
    before = services(
        Settings(settings.project, settings.home, settings.state, memory.get("port_base", settings.port_base)),
        memory.get("profiles", []),
    )
    old = {server.name: server for service in before.values() for server in service.servers}
    new = {server.name: server for service in known.values() for server in service.servers}
    other = [name for name, one in recorded.items() if is_alive(one) and name in old and old[name] != new.get(name)]
    if other:
        was = " and ".join(memory.get("profiles", [])) or "no profile"
        raise InfraError(
            f"{', '.join(other)} run on ports from {memory.get('port_base')} with {was}; "
            "`millrace down` first, then start the stack in its other form"
        )


def bring(settings: Settings, wanted: Sequence[Service], report: Report, progress: jars.Progress | None) -> None:
    """Makes present what the servers run on; what the machine lacks is said before anything is downloaded."""
    prerequisites.require(settings, os.environ)
    sources: list[Service | Server] = [*wanted, *(server for service in wanted for server in service.servers)]
    for name in dict.fromkeys(name for source in sources for name in source.environments):
        environments.ensure(settings, name, partial(report, "set-up"))
    jars.ensure(settings, [name for source in sources for name in source.components], progress)
    for server in (server for service in wanted for server in service.servers):
        server.unpack()
    environments.link(settings)


def refuse_used_ports(settings: Settings, servers: Sequence[Server]) -> None:
    """Says of every port that somebody else holds who that is, and how to choose other ports."""
    doors = [(server.name, door, port) for server in servers for door, port in server.doors.items()]
    # A process of ours that ended a moment ago may still be letting go of its port.
    processes.wait_until(lambda: all(is_free(port) for _, _, port in doors), within_s=2)
    taken = [
        f"port {port} ({name}: {door}) is in use by {holder(port)}" for name, door, port in doors if not is_free(port)
    ]
    if taken:
        raise InfraError(
            "\n".join(taken) + "\nstop who holds it, or choose other ports for the whole stack: "
            f"`millrace up --port-base {settings.port_base + 1000}`"
        )


def is_free(port: int) -> bool:
    """Whether a server could listen on the port."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers do: TIME_WAIT is no holder
        try:
            trial.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def holder(port: int) -> str:
    """Who listens on a port, as far as we may know."""
    for connection in psutil.net_connections(kind="tcp"):
        if connection.laddr and connection.laddr.port == port and connection.status == psutil.CONN_LISTEN:
            if connection.pid is None:
                return "a process of another user"
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                return described(psutil.Process(connection.pid))
            return f"pid {connection.pid}"
    return "somebody who does not listen on it (a connection that left from this port, perhaps)"


def described(process: psutil.Process) -> str:
    command = " ".join(process.cmdline()) or process.name()
    short = command if len(command) <= 100 else f"{command[:60]} ... {command[-35:]}"
    try:
        stack = process.environ().get("MILLRACE_STATE")
    except (psutil.AccessDenied, psutil.NoSuchProcess):
        stack = None
    return f"pid {process.pid} ({short})" + (f", a server of the stack in {stack}" if stack else "")


def cap_logs(settings: Settings) -> None:
    """Keeps short what processes print; what they log they rotate themselves."""
    for output in (settings.state / "logs").glob("*.out"):
        processes.cap(output)


def is_alive(record: Record | None) -> bool:
    return record is not None and processes.alive(record)


def every_server(settings: Settings) -> set[str]:
    """The names of all servers in all forms."""
    forms = ([], *([profile] for profile in PROFILES))
    return {
        server.name for form in forms for service in services(settings, form).values() for server in service.servers
    }


def memory_of(recorded: Mapping[str, Record]) -> int:
    return sum(processes.memory_bytes(record) for record in recorded.values() if processes.alive(record))


def record_the_start(settings: Settings, names: list[str], started: Sequence[Server], seconds: float) -> None:
    recorded = processes.records(settings.run)
    figures = {
        "services": names,
        "started": [server.name for server in started],
        "seconds": round(seconds, 1),
        "memory_bytes": memory_of(recorded),
        "memory_bytes_by_server": {
            name: processes.memory_bytes(record) for name, record in recorded.items() if processes.alive(record)
        },
    }
    records.append(settings, "up", figures)


def ensure_private(state: Path) -> None:
    """Makes a stack's folder, which nobody but its owner reads: events, tokens, passwords and logs are below it."""
    state.mkdir(parents=True, exist_ok=True)
    # Root's PostgreSQL runs as another user, who goes through it to the database and lists nothing (postgres.unpack).
    is_passed = os.getuid() == 0 and (state / "data" / "postgres").exists()
    state.chmod(0o711 if is_passed else 0o700)


@contextmanager
def only_one(settings: Settings, verb: str, report: Report) -> Iterator[None]:
    """Keeps two commands from changing the same stack at once: the second waits."""
    ensure_private(settings.state)
    path = settings.state / "lock"
    with path.open("a+") as lock:
        if not locked(lock.fileno()):
            lock.seek(0)
            report(verb, f"waiting for another command on this stack: {lock.read().strip()}")
            if not processes.wait_until(lambda: locked(lock.fileno()), LOCK_WITHIN_S):
                raise InfraError(f"another command held {path} for {LOCK_WITHIN_S} s")
        lock.truncate(0)
        lock.write(f"millrace {verb}, pid {os.getpid()}")
        lock.flush()
        yield


def locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
