"""millrace env: the addresses of the servers."""

import shlex

from millrace import registry, stack
from millrace.cli.printing import Json, print_json, settings
from millrace.machine import environments


def env(json: Json = False) -> None:
    """Print the addresses of the stack's servers as shell exports.

    They include the Python of each engine's environment, such as MILLRACE_PYTHON_SPARK. With --json the output has the
    format of a MILLRACE_TARGET file.

    Examples:
    eval "$(millrace env)"
    millrace env --json
    """
    found = stack.addresses(settings())
    if json:
        print_json("env", addresses=found)
    else:
        pythons = {
            f"MILLRACE_PYTHON_{each.name.upper().replace('-', '_')}": str(environments.python(settings(), each.name))
            for each in registry.manifests()
            if each.has_environment
        }
        for name, value in (found | pythons).items():
            print(f"export {name}={shlex.quote(value)}")
