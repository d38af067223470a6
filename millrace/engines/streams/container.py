"""`python -m millrace.engines.streams.container --plan JSON --jars CLASSPATH --folder FOLDER`: runs a plan.

The command of a container. Beside a stack engine.py starts the same Java, from the same declaration.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from millrace.engines.streams.job import MAIN, declaration
from millrace.engines.streams.tuning import HEAP_MB
from millrace.patterns import EnginePlan
from millrace.servers.server import java
from millrace.whole_files import write_whole


def main(argv: Sequence[str]) -> NoReturn:
    """Become the JVM of the job."""
    given = _arguments(argv)
    plan, folder = EnginePlan.read(given.plan), given.folder
    files = [str(folder / "job.json"), str(folder / "progress.json")]
    write_whole(Path(files[0]), json.dumps(declaration(plan, folder / "state")))
    command = [*java(HEAP_MB, flags=("-Dlog4j2.level=INFO",), quick_start=False), "-cp", given.jars, MAIN, *files]
    os.execvp(command[0], command)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m millrace.engines.streams.container", description=__doc__)
    parser.add_argument("--plan", required=True, help="the engine's plan as JSON, or @FILE")
    parser.add_argument("--jars", required=True, help="the class path: Kafka Streams' jars and the kernel's")
    parser.add_argument("--folder", required=True, type=Path, help="an existing folder for state and progress")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main(sys.argv[1:])
