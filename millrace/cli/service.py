"""millrace service: the stack as a service of systemd."""

import typer

from millrace.cli.command import Command, Group
from millrace.cli.printing import Json, print_json, result_console, settings

service = typer.Typer(cls=Group, help="Start the stack at each boot, by systemd.", no_args_is_help=True)


@service.command("install", cls=Command)
def install(json: Json = False) -> None:
    """Write a unit of systemd that starts the stack at each boot and stops it at each shutdown; start nothing now.

    The unit runs `up`, which starts the watcher, too: it starts the jobs that were deployed.

    Examples:
    millrace service install
    MILLRACE_STATE=/srv/stack millrace service install
    """
    from millrace.verbs import service as services

    path = services.install(settings())
    enable = f"systemctl --user daemon-reload && systemctl --user enable --now {path.stem}"
    if json:
        print_json("service install", unit=str(path), enable=enable)
        return
    console = result_console()
    console.print(f"written: {path}", markup=False)
    console.print(f"`{enable}` starts it, now and at each boot", markup=False)
    console.print("`loginctl enable-linger` lets it run while you are not logged in", markup=False)


@service.command("uninstall", cls=Command)
def uninstall(json: Json = False) -> None:
    """Remove the unit; servers that run stay up until `down`.

    Examples:
    millrace service uninstall
    """
    from millrace.verbs import service as services

    path = services.uninstall(settings())
    if json:
        print_json("service uninstall", unit=str(path))
    else:
        result_console().print(f"removed: {path}", markup=False)
