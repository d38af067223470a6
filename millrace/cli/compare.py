"""millrace compare: two patterns on one tape."""

from typing import Annotated

import typer

from millrace.cli.changes import complete_patterns, known_pattern
from millrace.cli.printing import Json, fields, print_json, result_console, settings

Name = Annotated[str, typer.Argument(metavar="PATTERN", autocompletion=complete_patterns, callback=known_pattern)]


def compare(
    left: Name,
    right: Name,
    tape: Annotated[
        str, typer.Argument(metavar="TAPE", help="The --name under which both were sent the same traffic.")
    ],
    json: Json = False,
) -> None:
    """Hold the alerts that two patterns raised on the same traffic against each other; they must be equal.

    Exit code 0 only if they are.

    Examples:  millrace compare flink spark tape-1
    """
    from millrace.target import Target
    from millrace.verbs import comparison

    found = comparison.compare(Target.read(settings()), left, right, tape)
    if json:
        print_json("compare", equal=found.equal, **fields(found))
    else:
        console = result_console()
        console.print(f"{found.alerts} alerts raised by both, {found.open} left open", highlight=False)
        for line in found.differences:
            console.print(line, style="red", markup=False)
        for pattern, figures in found.figures.items():
            console.print(f"{pattern}: {figures}", markup=False, highlight=False)
    if not found.equal:
        raise typer.Exit(1)
