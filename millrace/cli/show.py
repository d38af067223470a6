"""millrace show: the rows of one key in a table; and the names that uses give to such keys."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from millrace.cli.changes import RunName
from millrace.cli.printing import Json, plain_table, print_json, print_rows, result_console, settings
from millrace.errors import UsageError

if TYPE_CHECKING:
    from millrace.rules import Table, UseCase

Row = dict[str, Any]
Last = Annotated[
    int, typer.Option("--last", metavar="COUNT", min=1, max=1000, help="How many of the latest events to show.")
]


def show(
    pattern: RunName,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Name of a table of the use.")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="Value of the first field of the row key.")],
    last: Last = 10,
    json: Json = False,
) -> None:
    """Show the rows of one key in a table of HBase.

    The output has the state of the key and the number of its alerts by rule, or its latest events.

    Examples:
    millrace show flink-spark TABLE KEY
    millrace show flink TABLE KEY --last 50 --json
    """
    from millrace.patterns import load
    from millrace.rules import RuleError
    from millrace.target import Target
    from millrace.verbs import show as showing

    variant = load(pattern)
    try:
        chosen = variant.use.table(table)
    except RuleError as error:
        raise UsageError(str(error)) from None
    rows = showing.show(Target.read(settings()), variant, chosen, key, last)
    showing.require_found(bool(rows), variant, f"{chosen.first} in {table}", key)
    if json:
        print_json("show", pattern=pattern, table=table, key=key, rows=rows)
        return
    if chosen.columns:
        print_events(result_console(), chosen, rows)
        return
    for row in rows:
        print_state(result_console(), chosen, row)


def names() -> list[str]:
    """The names that uses give to keys, each a verb."""
    with suppress(Exception):  # a use that cannot be imported does not spoil `--help`; verbs that need it report it
        return [table.called for _, table in _called()]
    return []


def verb(name: str) -> Callable[..., None] | None:
    """The verb that shows one key, by the name that a use gives it."""
    named = {use.name: table for use, table in _called() if table.called == name}
    return _verb(name, named) if named else None


def print_state(console: Console, table: "Table", row: Row) -> None:
    """The state and the alerts of one key."""
    console.print(f"[bold]{' '.join(str(row[name]) for name in table.fields)}[/bold]")
    for name in table.state:
        console.print(f"{label(name):<16} {_shown(name, row[name]) or 'none'}", markup=False)
    if table.alerts:
        counted = ", ".join(f"{rule}: {number}" for rule, number in sorted(row["alerts"].items()))
        console.print(f"{'alerts':<16} {counted or 'none'}", markup=False)


def print_events(console: Console, table: "Table", rows: Sequence[Row]) -> None:
    """The events of one key."""
    columns = table.shows or tuple(rows[0] if rows else table.fields)
    if not console.is_terminal:
        print_rows([_shown(name, row[name]) for name in columns] for row in rows)
        return
    printed = plain_table(*map(label, columns))
    for row in rows:
        printed.add_row(*(_shown(name, row[name]) for name in columns))
    console.print(printed)


def label(name: str) -> str:
    """The name of a value for people, without its unit."""
    from millrace.rules.sentences import words

    return words(name)


def _called() -> "list[tuple[UseCase, Table]]":
    from millrace import project

    return [(use, table) for use in project.uses().values() for table in use.tables if table.called]


def _verb(called: str, tables: "Mapping[str, Table]") -> Callable[..., None]:
    """The verb by the tables whose key has this name, by use: in several uses, the pattern says which is meant."""

    def show_one(
        key: Annotated[
            str,
            typer.Argument(metavar="ID", help=f"Id of the {called}; `millrace topics tail` prints it with each alert."),
        ],
        pattern: Annotated[
            str,
            typer.Option(
                "--pattern",
                metavar="PATTERN",
                help="The pattern whose tables to read. Default: the one that was deployed last.",
            ),
        ] = "",
        last: Last = 10,
        json: Json = False,
    ) -> None:
        from millrace.cli.changes import known_pattern
        from millrace.patterns import load
        from millrace.target import Target
        from millrace.verbs import show as showing

        target = Target.read(settings())
        name = known_pattern(pattern) if pattern else showing.deployed_last(target, tables)
        variant = load(name)
        if variant.use.name not in tables:
            raise UsageError(f"{name} is a pattern of {variant.use.name}, which has no {called}")
        table = tables[variant.use.name]
        found = showing.show_called(target, variant, table, key, last)
        others = [variant.use.table(other) for other in found if other in {each.name for each in variant.use.tables}]
        values = [value for field, value in found.items() if field not in table.fields]
        showing.require_found(any(value or value == 0 for value in values), variant, called, key)
        if json:
            print_json(called, pattern=name, **found)
            return
        console = result_console()
        print_state(console, table, found)
        for other in others:
            print_events(console, other, found[other.name])

    of = " or ".join(tables)
    show_one.__doc__ = f"""Show one {called} of the use {of}, from HBase.

    The output has the state, the number of alerts by rule, and the latest events.

    Examples:
    millrace {called} ID
    millrace {called} ID --pattern PATTERN --last 50 --json
    """
    return show_one


def _shown(name: str, value: Any) -> str:
    """A value in the unit of its name."""
    match value:
        case None:
            return ""
        case dict():
            return ", ".join(f"{label(own)} {_shown(own, each)}" for own, each in value.items())
        case list():
            return ", ".join(map(str, value))
        case int() if name.endswith("_cents"):
            return f"{value / 100:.2f}"
        case int() if name == "at_ms" or name.endswith("_at_ms"):
            return datetime.fromtimestamp(value / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        case float():
            return f"{value:.6g}"
    return str(value)
