"""millrace patterns: the patterns and their rules."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from millrace.cli.changes import complete_patterns, known_pattern
from millrace.cli.printing import Json, plain_table, print_json, print_rows, result_console

if TYPE_CHECKING:
    from millrace.patterns import Variant


def patterns(
    name: Annotated[
        str,
        typer.Argument(
            metavar="PATTERN",
            help="Show the rules of this pattern. Default: list all patterns.",
            autocompletion=complete_patterns,
        ),
    ] = "",
    json: Json = False,
) -> None:
    """List the patterns, or show the rules of one, as sentences and as expressions.

    Examples:
    millrace patterns
    millrace patterns flink-spark
    """
    from millrace.patterns import load, load_all, readable, require_folders

    if name:
        show(load(known_pattern(name)), json=json)
        return
    require_folders()
    if json:
        problems = wrong()
        print_json(
            "patterns",
            patterns=[{"name": each.name, **each.pattern.model_dump()} for each in readable()],
            problems=problems,
        )
        if problems:
            raise typer.Exit(1)
        return
    table([(each.name, *_engines(each), each.pattern.title) for each in readable()])
    load_all()  # raises for files that are not listed


def wrong() -> list[str]:
    """The errors of the pattern files that cannot be read."""
    from millrace.patterns import PatternError, load_all

    try:
        load_all()
    except PatternError as error:
        return str(error).splitlines()
    return []


def table(rows: Sequence[Sequence[str]]) -> None:
    """Print the patterns, a line each."""
    console = result_console()
    if not console.is_terminal:
        print_rows(rows)
        return
    drawn = plain_table("pattern", "events", "windows", "what it is")
    for row in rows:
        drawn.add_row(*row)
    console.print(drawn)


def show(variant: "Variant", *, json: bool) -> None:
    """Print one pattern: its description and its rules."""
    rules = [*variant.event_rules, *variant.window_rules]
    if json:
        declared = [
            {"name": r.name, "version": r.version, "sentence": r.sentence(), "expression": r.expression()}
            for r in rules
        ]
        shown = {"name": variant.name, **variant.pattern.model_dump(), "declared_rules": declared}
        print_json("patterns", patterns=[shown], problems=[])
        return
    console = result_console()
    console.print(f"[bold]{variant.name}[/bold]  {variant.pattern.title}\n\n{variant.pattern.doc}\n")
    for rule in rules:
        console.print(f"[bold]{rule.name}[/bold]  version {rule.version}")
        console.print(f"  {rule.doc}", markup=False)
        console.print(f"  {rule.sentence()}", markup=False)
        console.print(f"  {rule.expression()}", markup=False, style="dim")


def _engines(variant: "Variant") -> tuple[str, str]:
    stages = variant.pattern.stages
    return stages.events.engine, stages.windows.engine if stages.windows else "-"
