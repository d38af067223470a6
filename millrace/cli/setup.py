"""millrace setup: download and build all that a stack needs."""

from millrace.cli.printing import Json, print_json, settings


def setup(json: Json = False) -> None:
    """Download and build all that servers and patterns need.

    All projects of this user share the result. `millrace up` downloads what its services need; run `setup` before you
    deploy to servers of a MILLRACE_TARGET, because `up` does not start those.

    Examples:
    millrace setup
    """
    from millrace.machine import setup as machine

    machine.everything(settings())
    if json:
        print_json("setup")
