"""The state of the Flink source is read as an earlier version wrote it."""

from __future__ import annotations

import base64
import os
import struct
import subprocess
from pathlib import Path

from millrace import kernel
from millrace.machine import environments, jars
from millrace.settings import Settings


def text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode()


def split_of_version_1(partition: int, offsets: dict[str, int]) -> bytes:
    listed = b"".join(text(topic) + struct.pack(">q", offset) for topic, offset in offsets.items())
    return struct.pack(">ii", partition, len(offsets)) + listed


def test_a_savepoint_from_before_topics_had_ids_is_restored(tmp_path: Path) -> None:
    settings = Settings.read(os.environ)
    package = environments.flink_package(settings)
    libraries = [*(package / "lib").glob("*.jar"), *jars.folder(settings, "flink").glob("*.jar")]
    class_path = os.pathsep.join(map(str, [tmp_path, kernel.ensure(settings), *libraries]))
    source = Path(__file__).with_name("SplitState.java")
    quick = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    subprocess.run(["javac", *(f"-J{each}" for each in quick), "-d", tmp_path, "-cp", class_path, source], check=True)
    split = split_of_version_1(3, {"t": 41, "u": 7})
    state = struct.pack(">iii", 2, 0, 3) + struct.pack(">i", 1) + split
    given = ["1", *(base64.b64encode(each).decode() for each in (split, state))]
    command = ["java", *quick, "-cp", class_path, "millrace.flink.arrivals.SplitState", *given]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert printed[:4] == ["3 {t=41, u=7} {}", "3 {t=41, u=7} {}", "true", "3 {t=41, u=7} {t=id}"]
    assert "offset 2 is next, the topic was deleted and created anew, offsets 3 to 4 are there" in printed[4]
