"""Progress bars of downloads."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from millrace.machine.jars import Progress


@contextmanager
def bars(console: Console) -> Iterator[Progress]:
    """Shows one bar for each component on a terminal, and one line at its start and end elsewhere."""
    if not console.is_terminal:
        yield _lines(console)
        return
    from rich import progress as rich_progress  # here: a bar is rare, and each call of the command line imports this

    columns = (
        rich_progress.TextColumn("{task.description:>14}"),
        rich_progress.BarColumn(),
        rich_progress.DownloadColumn(),
        rich_progress.TimeElapsedColumn(),
    )
    with rich_progress.Progress(*columns, console=console) as shown:
        tasks: dict[str, rich_progress.TaskID] = {}

        def update(component: str, done: int, expected: int) -> None:
            if component not in tasks:
                tasks[component] = shown.add_task(component, total=expected or None)
            shown.update(tasks[component], completed=done)
            if done and done == expected:
                shown.stop_task(tasks[component])

        yield update


def _lines(console: Console) -> Progress:
    arrived = set()

    def show(component: str, done: int, expected: int) -> None:
        if done == expected and component not in arrived:
            arrived.add(component)
            console.print(f"jars of {component}: arrived")
        elif done == 0:
            console.print(f"jars of {component}: downloading {expected / 1e6:.0f} MB")

    return show
