"""The description of a server, and the formats of configuration files."""

import json
import socket
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from xml.sax.saxutils import escape

from millrace.machine import jars
from millrace.settings import Settings

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Preparation:
    """Commands that run once before the first start and fill a folder of their own."""

    folder: Path
    commands: tuple[tuple[str, ...], ...]
    whole: Mapping[str, bytes] = field(default_factory=dict)
    """What the commands write last, file pattern -> content: a folder that has all of it is kept."""

    @property
    def mark(self) -> Path:
        """Exists when the commands have run."""
        return self.folder.with_name(f".{self.folder.name}-prepared")

    @property
    def is_whole(self) -> bool:
        """Whether the folder holds prepared storage, even without the mark."""
        return bool(self.whole) and all(
            any(text in path.read_bytes() for path in self.folder.glob(pattern)) for pattern, text in self.whole.items()
        )


@dataclass(frozen=True)
class Server:
    """One process of a stack. Everything is a pure description but `is_ready`, which probes it."""

    settings: Settings

    components: ClassVar[tuple[str, ...]] = ()  # class paths of millrace/machine/jars that it runs on
    environments: ClassVar[tuple[str, ...]] = ()  # environments of millrace/machine/environments that it runs on
    within_s: ClassVar[float] = 180  # until it must be ready: a crash recovery on a busy machine takes minutes

    @property
    def name(self) -> str:
        raise NotImplementedError

    @property
    def doors(self) -> Mapping[str, int]:
        """Every port on which it listens, by purpose."""
        raise NotImplementedError

    @property
    def address(self) -> str:
        """Where a client connects."""
        return f"{LOOPBACK}:{next(iter(self.doors.values()))}"

    @property
    def web(self) -> str:
        """Its web page, if it has one."""
        return ""

    @property
    def hint(self) -> str:
        """A line for its users, printed when it is ready."""
        return ""

    @property
    def needs(self) -> tuple[str, ...]:
        """The servers that must be ready before this one starts."""
        return ()

    def files(self) -> dict[str, str]:
        """The files it reads, by path in its configuration folder."""
        return {}

    def links(self) -> dict[str, Path]:
        """The files that it reads through links, by path in its configuration folder."""
        return {}

    def unpack(self) -> None:
        """Unpack what its components contain as archives."""

    def preparation(self) -> Preparation | None:
        return None

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        # One malloc arena per core and thread costs a JVM up to 100 MB that it never uses.
        return {"MALLOC_ARENA_MAX": "2"}

    def is_ready(self, since: float) -> bool:
        """Whether it serves clients, since its start at `since`."""
        raise NotImplementedError

    @property
    def conf(self) -> Path:
        return self.settings.state / "conf" / self.name

    @property
    def data(self) -> Path:
        return self.settings.state / "data" / self.name

    @property
    def folder(self) -> Path:
        """Its working folder: what it writes there stays in the stack's folder."""
        return self.settings.run

    @property
    def output(self) -> Path:
        """Its standard output: its whole log, or what it prints before its rolling log begins."""
        return self.settings.state / "logs" / f"{self.name}.out"

    @property
    def log(self) -> Path:
        return self.settings.state / "logs" / f"{self.name}.log"

    def jars(self, component: str) -> str:
        return f"{jars.folder(self.settings, component)}/*"


def java(heap_mb: int, *, flags: tuple[str, ...] = (), quick_start: bool = True) -> list[str]:
    """The start of a JVM's command line."""
    # C1 alone halves the start-up of a server whose speed does not matter here.
    compiler = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1") if quick_start else ("-XX:+UseG1GC",)
    return [
        "java",
        "-Xms64m",
        f"-Xmx{heap_mb}m",
        *compiler,
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.awt.headless=true",
        "-Djava.net.preferIPv4Stack=true",
        *flags,
    ]


def accepts(port: int) -> bool:
    """Whether a process listens: not readiness yet, but before that a client's retries only cost time."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1):
            return True
    except OSError:
        return False


def management_bean(port: int, query: str) -> dict[str, Any] | None:
    """A management bean of one of Hadoop's or HBase's servers, over HTTP; None while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/jmx?qry={query}", timeout=2) as answer:
            beans = json.load(answer)["beans"]
    except (OSError, ValueError):
        return None
    return dict(beans[0]) if beans else None


def properties(entries: Mapping[str, object]) -> str:
    """A Java properties file: ASCII, since Java reads it as Latin-1."""
    return "".join(f"{key}={_properties_value(str(value))}\n" for key, value in entries.items())


def _properties_value(text: str) -> str:
    utf16 = text.replace("\\", "\\\\").encode("utf-16-be")
    units = [int.from_bytes(utf16[i : i + 2]) for i in range(0, len(utf16), 2)]
    return "".join(chr(unit) if 32 <= unit < 127 else f"\\u{unit:04x}" for unit in units)


def hadoop_xml(entries: Mapping[str, object]) -> str:
    """A Hadoop configuration file."""
    lines = (
        f"  <property><name>{name}</name><value>{escape(str(value))}</value></property>\n"
        for name, value in entries.items()
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<configuration>\n{"".join(lines)}</configuration>\n'


def log4j2(log: Path) -> str:
    """Log4j 2: one file of at most 10 MB and two older ones."""
    return properties(
        {
            "status": "warn",
            "appender.file.type": "RollingFile",
            "appender.file.name": "FILE",
            "appender.file.fileName": log,
            "appender.file.filePattern": f"{log}.%i",
            "appender.file.layout.type": "PatternLayout",
            "appender.file.layout.pattern": "%d{yyyy-MM-dd HH:mm:ss,SSS} %-5p %c{1.} - %m%n",
            "appender.file.policies.type": "Policies",
            "appender.file.policies.size.type": "SizeBasedTriggeringPolicy",
            "appender.file.policies.size.size": "10MB",
            "appender.file.strategy.type": "DefaultRolloverStrategy",
            "appender.file.strategy.fileIndex": "min",
            "appender.file.strategy.max": 2,
            "rootLogger.level": "INFO",
            "rootLogger.appenderRef.file.ref": "FILE",
        }
    )


def log4j1(log: Path, quiet: tuple[str, ...] = ()) -> str:
    """Log4j 1, which Hadoop still uses: one file of at most 10 MB and two older ones."""
    return properties(
        {f"log4j.logger.{logger}": "WARN" for logger in quiet}
        | {
            "log4j.rootLogger": "INFO,file",
            "log4j.appender.file": "org.apache.log4j.RollingFileAppender",
            "log4j.appender.file.File": log,
            "log4j.appender.file.MaxFileSize": "10MB",
            "log4j.appender.file.MaxBackupIndex": 2,
            "log4j.appender.file.layout": "org.apache.log4j.PatternLayout",
            "log4j.appender.file.layout.ConversionPattern": "%d{ISO8601} %-5p %c{2} - %m%n",
        }
    )
