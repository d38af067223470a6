"""Everything that is downloaded or built, once: `make setup` in a clone, `millrace setup` elsewhere.

In a clone it begins under the bare python3.11, makes the environment of the command line, and continues inside it;
with --tests it also installs what only tests need.
"""

import json
import os
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from millrace import kernel, records
from millrace.errors import InfraError
from millrace.machine import environments, jars, npm, prerequisites, registries
from millrace.settings import Settings

TESTS = "--tests"


def main(argv: list[str]) -> int:
    settings = Settings.read(os.environ)
    tests = TESTS in argv
    handed_over = [word for word in argv if word != TESTS]
    try:
        begun = json.loads(handed_over[0]) if handed_over else begin(settings, tests)
        if Path(sys.prefix) == environments.folder(settings, environments.CLI):
            make_the_rest(settings, begun, tests)
        else:
            make_the_command_line(settings, begun, tests)
    except InfraError as error:
        print(f"set-up failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; `make setup` continues from here", file=sys.stderr)
        return 130
    return 0


def everything(settings: Settings) -> None:
    """Set up all but the environment of the command line, which calls this."""
    begun = _started()
    prerequisites.require(settings, os.environ)
    if _is_incomplete(settings, environments.SHARED):
        _announce(settings, tests=False)
    make_the_rest(settings, begun, tests=False)


def begin(settings: Settings, tests: bool) -> dict[str, Any]:
    """Refuse a machine without the prerequisites, before any download; install them if that is allowed."""
    begun = _started()
    is_incomplete = _is_incomplete(settings, (environments.CLI, *environments.SHARED))
    if tests or is_incomplete:
        findings = prerequisites.for_setup(settings, os.environ, tests=tests)
        if prerequisites.install(findings, os.environ):
            findings = prerequisites.for_setup(settings, os.environ, tests=tests)
        prerequisites.refuse(findings, os.environ)
    if is_incomplete:
        _announce(settings, tests)
    return begun


def make_the_command_line(settings: Settings, begun: dict[str, Any], tests: bool) -> None:
    """Make the environment of the command line, and continue inside it."""
    if made := environments.ensure(settings, environments.CLI):
        begun["environments"] = {environments.CLI: made.seconds}
    python = str(environments.python(settings, environments.CLI))
    os.execv(python, [python, "-m", "millrace.machine.setup", json.dumps(begun), *([TESTS] if tests else [])])


def make_the_rest(settings: Settings, begun: dict[str, Any], tests: bool) -> None:
    """Make the engines' environments while the jars download, then build the kernel; record the time it took."""
    # Imported here: the bare interpreter of the first half has no rich.
    from rich.console import Console

    from millrace.machine.jars.bars import bars

    console = Console(stderr=True)

    def make(name: str) -> None:
        if made := environments.ensure(settings, name):
            begun["environments"][name] = made.seconds
            console.print(f"environment of {name}: made in {made.seconds} s")

    def bring(name: str) -> None:
        npm.ensure(settings, name)
        console.print(f"npm packages of {name}: installed")

    with bars(console) as progress, ThreadPoolExecutor() as workers:
        making = [workers.submit(make, name) for name in environments.absent(settings)]
        making += [workers.submit(bring, name) for name in npm.absent(settings, npm.components(tests))]
        downloads = jars.ensure(settings, jars.components(settings), progress)
        for one in making:
            one.result()
    started = time.monotonic()
    for engine in kernel.engines(settings):
        kernel.ensure(settings, engine)
    if begun["environments"] or downloads:
        figures = _figures(settings, begun, downloads, kernel_seconds=time.monotonic() - started)
        path = records.append(settings, "setup", figures)
        size = sum(figures["disk_bytes"].values()) / 1e9
        console.print(f"set up in {figures['seconds']} s, {size:.1f} GB on disk; recorded in {path}", soft_wrap=True)


def _started() -> dict[str, Any]:
    return {"at": time.time(), "received_bytes": _received_bytes(), "environments": {}}


def _is_incomplete(settings: Settings, names: Iterable[str]) -> bool:
    return bool(environments.absent(settings, names) or jars.absent(settings, jars.components(settings)))


def _announce(settings: Settings, tests: bool) -> None:
    prerequisites.refuse(registries.reached(settings, tests), os.environ)
    print("setting up; the first set-up downloads some 1.8 GB", file=sys.stderr, flush=True)


def _figures(
    settings: Settings, begun: dict[str, Any], downloads: Iterable[jars.Download], kernel_seconds: float
) -> dict[str, Any]:
    places = {
        "environments": [environments.folder(settings, name) for name in (environments.CLI, *environments.SHARED)],
        "jars": [settings.home / "jars"],
        "npm packages": [settings.home / "npm"],
        "kernel": [settings.home / "kernel"],
        "uv and its cache": [settings.home / f"uv-{environments.UV_VERSION}", settings.home / "uv"],
    }
    seen: set[tuple[int, int]] = set()
    return {
        "seconds": round(time.time() - begun["at"], 1),
        # Of the whole machine, because neither uv nor Maven reports it: an upper bound.
        "received_bytes": _received_bytes() - begun["received_bytes"],
        "environments": {name: {"seconds": seconds} for name, seconds in sorted(begun["environments"].items())},
        "jars": {one.component: {"seconds": one.seconds, "bytes": one.bytes, "jars": one.jars} for one in downloads},
        "kernel": {"seconds": round(kernel_seconds, 1)},
        "disk_bytes": {what: sum(_disk_bytes(folder, seen) for folder in folders) for what, folders in places.items()},
    }


def _received_bytes() -> int:
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    counters = dict(line.split(":", 1) for line in lines)
    return sum(int(figures.split()[0]) for name, figures in counters.items() if name.strip() != "lo")


def _disk_bytes(folder: Path, seen: set[tuple[int, int]]) -> int:
    """Bytes of a folder on disk; a file with several names counts where it is seen first."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            stat = os.lstat(os.path.join(parent, name))
            if (stat.st_dev, stat.st_ino) not in seen:
                seen.add((stat.st_dev, stat.st_ino))
                total += stat.st_blocks * 512
    return total


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
