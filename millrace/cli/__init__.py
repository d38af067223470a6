"""The command line: a file for each verb, which parses, calls and prints.

Exit codes: 0 done, 1 failed (one line with the cause and the remedy), 2 usage error, 3 a plan with changes, 130
interrupted. With --json a failure is one JSON object on standard output.
"""

import logging
import os
import sys


def main() -> None:
    """Run a verb; print an expected error as one line."""
    os.umask(0o077)  # others may not read what a verb writes; processes.PRIVATE is the same for what it starts
    _leave_loopback_out_of_proxies()
    # The clients log every refused connection while a server starts, and the probes report it anyway.
    for name in ("kafka", "hdfs"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    is_for_programs, verb = "--json" in sys.argv[1:], ""
    try:
        # Not above: Ctrl-C during this import is handled, too.
        from millrace import project
        from millrace.cli.app import run, verb_of

        project.make_importable()
        if is_for_programs:
            verb = verb_of(sys.argv[1:])
        sys.exit(run(sys.argv[1:]))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python fails when it flushes at the end
        sys.exit(1)
    except (Exception, KeyboardInterrupt) as error:
        # Not above either: it imports modules that may be the cause.
        from millrace.cli.failures import Failure, failure

        found = failure(error)
        if is_for_programs:
            from millrace.cli.printing import print_failure

            print_failure(verb, found or Failure(f"{type(error).__name__}: {error}", "unexpected"))
        if found is None:
            raise
        print(f"millrace: {found.message}", file=sys.stderr)
        sys.exit(found.exit)


def _leave_loopback_out_of_proxies() -> None:
    """The servers of a stack are on this machine: a proxy of the shell does not reach them."""
    present = os.environ.get("no_proxy") or os.environ.get("NO_PROXY", "")
    for name in ("no_proxy", "NO_PROXY"):
        os.environ[name] = ",".join(filter(None, (present, "127.0.0.1", "localhost")))
