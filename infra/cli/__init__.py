"""The command line: one file for each verb, which parses, calls and prints.

Exit codes: 0 done, 1 failed (one line says what and what to do), 2 wrong usage, 3 a plan in which something would
change, 130 interrupted.
"""

import logging
import os
import sys


def main() -> None:
    """The one place where a known error becomes one line."""
    # Clients complain of every refused connection while a server starts; the probes know better.
    for name in ("kafka", "hdfs"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        # Not above: whoever presses Ctrl-C at once must be answered as well.
        from infra.cli.app import app

        app()
    except KeyboardInterrupt:
        print("millrace: interrupted", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        # The patterns themselves may be what cannot be imported.
        from infra.errors import InfraError, UsageError
        from pipelines.rules.expressions import DeclarationError

        if isinstance(error, OSError) and error.filename and error.strerror:
            is_of_stack = os.environ.get("MILLRACE_STATE", ".millrace") in str(error.filename)
            hint = "; MILLRACE_STATE says where a stack's files go" if is_of_stack else ""
            error = InfraError(f"{error.filename}: {error.strerror}{hint}")
        if not isinstance(error, InfraError | DeclarationError):
            raise
        print(f"millrace: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, UsageError) else 1)
