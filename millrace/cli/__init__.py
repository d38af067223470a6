"""The command line: one file for each verb, which parses, calls and prints.

Exit codes: 0 done, 1 failed (one line says what and what to do), 2 wrong usage, 3 a plan in which something would
change, 130 interrupted. With --json a failure is one JSON object on standard output, too.
"""

import logging
import os
import sys


def main() -> None:
    """The one place where a known error becomes one line."""
    os.umask(0o077)  # what a verb writes is its user's; processes.PRIVATE is the same for what it starts
    # Clients complain of every refused connection while a server starts; the probes know better.
    for name in ("kafka", "hdfs"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    is_for_programs = "--json" in sys.argv[1:]
    try:
        # Not above: whoever presses Ctrl-C at once must be answered as well.
        from millrace import project
        from millrace.cli.app import app, run

        project.make_importable()
        if is_for_programs:
            sys.exit(run(sys.argv[1:]))
        app()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it flushes at the end
        sys.exit(1)
    except (Exception, KeyboardInterrupt) as error:
        # Not above either: it imports what may have failed.
        from millrace.cli.failures import Failure, failure

        found = failure(error)
        if is_for_programs:
            from millrace.cli.printing import print_failure

            print_failure(found or Failure(f"{type(error).__name__}: {error}", "unexpected"))
        if found is None:
            raise
        print(f"millrace: {found.message}", file=sys.stderr)
        sys.exit(found.exit)
