"""millrace env: the addresses of the servers."""

import shlex

from millrace import stack
from millrace.cli.printing import Json, print_json, settings


def env(json: Json = False) -> None:
    """Print the addresses of the stack's servers as shell exports.

    With --json the output has the format of a MILLRACE_TARGET file.

    Examples:
    eval "$(millrace env)"
    millrace env --json
    """
    found = stack.addresses(settings())
    if json:
        print_json("env", addresses=found)
    else:
        for name, value in found.items():
            print(f"export {name}={shlex.quote(value)}")
