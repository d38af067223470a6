"""Whether the ports of servers are free, and which process holds one that is not."""

import socket
from collections.abc import Sequence
from contextlib import suppress

import psutil

from millrace.errors import InfraError
from millrace.machine import processes
from millrace.servers.server import LOOPBACK, Server
from millrace.settings import Settings


def refuse_used_ports(settings: Settings, servers: Sequence[Server]) -> None:
    """Refuse to start servers on ports that are in use; the error names each holder and how to choose other ports."""
    doors = [(server.name, door, port) for server in servers for door, port in server.doors.items()]
    # A process that ended a moment ago may still hold its port.
    processes.wait_until(lambda: all(is_free(port) for _, _, port in doors), within_s=2)
    taken = [
        f"port {port} ({name}: {door}) is in use by {holder(port)}" for name, door, port in doors if not is_free(port)
    ]
    if taken:
        raise InfraError(
            "\n".join(taken) + "\nstop what holds it, or choose other ports for the whole stack: "
            f"`millrace up --port-base {settings.port_base + 1000}`"
        )


def is_free(port: int) -> bool:
    """Whether a server could listen on the port."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers do: TIME_WAIT holds no port
        try:
            trial.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def holder(port: int) -> str:
    """The process that listens on a port, as far as this user may see it."""
    for connection in psutil.net_connections(kind="tcp"):
        if connection.laddr and connection.laddr.port == port and connection.status == psutil.CONN_LISTEN:
            if connection.pid is None:
                return "a process of another user"
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                return described(psutil.Process(connection.pid))
            return f"pid {connection.pid}"
    return "a process that does not listen on it (perhaps the local end of a connection)"


def described(process: psutil.Process) -> str:
    """A process by pid, command, and the stack that it belongs to."""
    command = " ".join(process.cmdline()) or process.name()
    short = command if len(command) <= 100 else f"{command[:60]} ... {command[-35:]}"
    try:
        stack = process.environ().get("MILLRACE_STATE")
    except (psutil.AccessDenied, psutil.NoSuchProcess):
        stack = None
    return f"pid {process.pid} ({short})" + (f", a server of the stack in {stack}" if stack else "")
