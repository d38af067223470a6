"""millrace mark: what a person makes of an alert."""

import getpass
from typing import Annotated

import typer

from millrace.cli.changes import AlertId, PatternOfAlert, known_run
from millrace.cli.printing import Json, fields, print_json, result_console, settings
from millrace.rules.outputs import MARKS


def mark(
    alert_id: AlertId,
    as_: Annotated[
        str,
        typer.Argument(metavar="MARK", help=f"{', '.join(MARKS[:-1])} or {MARKS[-1]}.", autocompletion=lambda: MARKS),
    ],
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="Why, in one line.")] = "",
    by: Annotated[
        str, typer.Option("--by", metavar="NAME", help="Who marks it.", show_default="the user of this shell")
    ] = "",
    pattern: PatternOfAlert = "",
    json: Json = False,
) -> None:
    """Mark an alert as confirmed, dismissed or unsure, for everybody who looks at it.

    Marks are kept in the topic PATTERN.dispositions; the last one of an alert counts. `alerts` prints them, and
    `alerts --precision` the share of confirmed alerts by rule and day.

    Examples:
    millrace mark 752d93d27e confirmed --note stolen
    millrace mark 752d93d27e unsure --pattern flink --by anna
    """
    from millrace.patterns import load, readable
    from millrace.stores.topics import Publisher
    from millrace.target import Target
    from millrace.verbs import alerts, dispositions

    dispositions.require_mark(as_)
    target = Target.read(settings())
    variants = [load(known_run(pattern))] if pattern else readable()
    variant, found = alerts.named(target, variants, alert_id)
    by = by or getpass.getuser()
    made = dispositions.mark(Publisher(target.bootstrap), variant, found.alert, as_, by=by, note=note)
    if json:
        print_json("mark", pattern=variant.name, **fields(made))
        return
    result_console().print(f"{made.alert_id[:10]} of {variant.name} is {made.mark}, by {made.by}", markup=False)
