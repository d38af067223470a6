"""Where a JVM spends its processor time, by what its code does: samples of Java's flight recorder.

It samples threads in Java code: not the garbage collector, the compilers or native code, such as RocksDB.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from shutil import which

from millrace.machine.archives import beside

NAME = "millrace"
SETTINGS = """<?xml version="1.0" encoding="UTF-8"?>
<configuration version="2.0">
  <event name="jdk.ExecutionSample"><setting name="enabled">true</setting><setting name="period">10 ms</setting></event>
</configuration>
"""
"""Samples and nothing else, which would cost the job more."""
FRAMES_MOST = 64
EVERYTHING_ELSE = "everything else"
LAYERS = {
    "Kafka's clients": r"\bkafka\.(shaded\.)?.*\b(clients|common)\.|connector\.kafka\.",
    "writing JSON": r"handwritten\.Writing|RowDataToJson|JsonRowDataSerialization|JsonMessage|JacksonGenerator"
    r"|jackson.*(Generator|Write|Serialize|NumberOutput|\.node\.)",
    "reading JSON": r"EventReader|handwritten\.Reading|JacksonParser|\.jackson",
    "order, look-ups, state and rules": r"^(millrace|handwritten)\.",
    "generated code": r"StreamExec|\bgenerated\.|GeneratedClass|codegen|catalyst\.expressions",
    "rows as bytes": r"typeutils|[Ss]erializer|table\.data\.|core\.memory|unsafe\.|UnsafeRow|rocksdb",
    "the engine": r"\.(flink|pekko|netty|spark|streams)\.",
}
"""By what the frame that is nearest to the top, and fits one, is named."""


def begin(pid: int, folder: Path) -> None:
    settings = folder / "samples.jfc"
    settings.write_text(SETTINGS, encoding="utf-8")
    _jcmd(pid, "JFR.start", f"name={NAME}", f'settings="{settings}"')


def end(pid: int, recording: Path) -> Counter[str]:
    """The samples since `begin`, by layer."""
    _jcmd(pid, "JFR.stop", f"name={NAME}", f'filename="{recording}"')
    words: list[str | Path] = [
        _tool("jfr"),
        "print",
        "--events",
        "jdk.ExecutionSample",
        "--stack-depth",
        str(FRAMES_MOST),
        str(recording),
    ]
    printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return Counter(map(layer_of, stacks(printed)))


def stacks(printed: str) -> Iterator[list[str]]:
    """The names of methods of each sample, the innermost first."""
    for sample in printed.split("jdk.ExecutionSample {")[1:]:
        yield re.findall(r"^\s+([\w.$<>/]+)\(", sample.partition("stackTrace = [")[2], re.MULTILINE)


def layer_of(frames: Iterable[str]) -> str:
    for frame in frames:
        for layer, names in LAYERS.items():
            if re.search(names, frame):
                return layer
    return EVERYTHING_ELSE


def _jcmd(pid: int, *words: str) -> None:
    subprocess.run([_tool("jcmd"), str(pid), *words], check=True, capture_output=True, text=True)


def _tool(name: str) -> Path:
    return beside(which("java") or "java", name)
