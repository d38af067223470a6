"""Kafka's and HDFS's processes as a line of Python each, for what a stack does with any process that holds ports.

They are processes of their own with the ports, records, logs and order of the real ones; only what they would do for a
client is left out. A JVM's start takes some seconds of processor time, and there are dozens of starts.
"""

import sys
from collections.abc import Callable
from typing import Any

from millrace.servers.hdfs import DataNode, NameNode
from millrace.servers.kafka import Kafka
from millrace.servers.server import Server, accepts

PROGRAM = """
import os, signal, socket, sys, time
time.sleep(float(os.environ["STARTS_IN_S"]))
held = [socket.create_server(("127.0.0.1", int(port))) for port in sys.argv[1:]]
signal.pause()
"""


def install(set_attribute: Callable[[type, str, Any], None] = setattr, starts_in_s: float = 0.1) -> None:
    """Let the servers of Kafka and HDFS be these from now on."""

    def command(server: Server) -> list[str]:
        return [sys.executable, "-S", "-c", PROGRAM, *map(str, server.doors.values())]

    for kind in (Kafka, NameNode, DataNode):
        set_attribute(kind, "command", command)
        set_attribute(kind, "environment", lambda server: {"STARTS_IN_S": str(starts_in_s)})
        set_attribute(kind, "preparation", lambda server: None)
        set_attribute(kind, "is_ready", lambda server, since: all(map(accepts, server.doors.values())))
