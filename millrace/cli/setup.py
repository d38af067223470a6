"""millrace setup: download and build all that a stack needs."""

from millrace.cli.printing import Json, print_json, settings


def setup(json: Json = False) -> None:
    """Download and build all that any service or pattern needs, once for all projects of this user.

    `millrace up` brings what its services need by itself. Run this before patterns are deployed to servers of a
    MILLRACE_TARGET, where nothing is started by `up`.

    Examples:  millrace setup
    """
    from millrace.machine import setup as machine

    machine.everything(settings())
    if json:
        print_json("setup")
