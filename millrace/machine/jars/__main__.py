"""python -m millrace.machine.jars: download the jars, check them again, or write the lock after a change of a pom."""

import argparse
import os
import sys

from rich.console import Console

from millrace.errors import InfraError
from millrace.machine import jars
from millrace.machine.jars.bars import bars
from millrace.settings import Settings


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m millrace.machine.jars", description=__doc__)
    parser.add_argument("verb", choices=["ensure", "verify", "lock"])
    parser.add_argument("component", nargs="*", help="all of them when none is named")
    arguments = parser.parse_args(argv)
    settings = Settings.read(os.environ)
    names = arguments.component or jars.components(settings)
    console = Console(stderr=True)
    try:
        if arguments.verb == "verify":
            locks = jars.read_lock(settings)
            absent = [name for name in names if not jars.is_complete(settings, name, locks[name], reread=True)]
            for name in absent:
                console.print(f"{name}: not downloaded")
            return 1 if absent else 0
        with bars(console) as progress:
            act = jars.write_lock if arguments.verb == "lock" else jars.ensure
            for done in act(settings, names, progress):
                console.print(f"{done.component}: {done.jars} jars, {done.bytes / 1e6:.0f} MB in {done.seconds} s")
    except InfraError as error:
        console.print(str(error), style="red", markup=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.print("interrupted; the files that have arrived are kept, and the next call continues from there")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
