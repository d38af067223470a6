"""millrace dead-letters: rejected messages, and their replay."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from millrace.cli.changes import PatternName
from millrace.cli.command import Command
from millrace.cli.printing import Json, print_json, print_rows, result_console, settings

if TYPE_CHECKING:
    from millrace.verbs.letters import Letter

dead_letters = typer.Typer(
    help="List rejected messages with reasons; replay them once the cause is fixed.", no_args_is_help=True
)

Reason = Annotated[
    str, typer.Option("--reason", help="Only reasons that begin with this: json, missing:merchant, unknown ...")
]


@dead_letters.command("list", cls=Command)
def list_letters(
    pattern: PatternName,
    reason: Reason = "",
    last: Annotated[int, typer.Option("--last", min=1, help="How many of the latest to show.")] = 20,
    json: Json = False,
) -> None:
    """List the dead letters of a pattern: the count of each reason, and the latest with topic, partition and offset.

    Examples:  millrace dead-letters list flink-spark  |  millrace dead-letters list flink --reason unknown --json
    """
    from millrace.patterns import load
    from millrace.target import Target
    from millrace.verbs import letters

    found = letters.read(Target.read(settings()), load(pattern), reason)
    if json:
        print_json("dead-letters list", pattern=pattern, dead_letters=found)
        return
    console = result_console()
    if not console.is_terminal:
        print_rows(row(letter) for letter in found)
        return
    counts = Table("reason", "count", box=None, header_style="bold")
    for name, count in Counter(letter.reason for letter in found).most_common():
        counts.add_row(name, str(count))
    console.print(counts)
    table = Table("came", "reason", "topic", "partition", "offset", "message", box=None, header_style="bold")
    for letter in found[-last:]:
        table.add_row(*row(letter), style="" if letter.reason not in ("duplicate", "late") else "dim")
    console.print(table)
    console.print(
        f"{len(found)} dead letters; once the cause is fixed: `millrace dead-letters replay {pattern} --reason ...`",
        style="dim",
    )


@dead_letters.command("replay", cls=Command)
def replay_letters(
    pattern: PatternName,
    reason: Reason = "",
    corrected: Annotated[
        Path | None,
        typer.Option(
            "--with",
            exists=True,
            dir_okay=False,
            help="JSON lines of corrected messages: topic, partition, offset, value.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Send rejected messages again to the topic in which they came, except duplicates and late ones.

    Two kinds are sent only as corrected by --with: reference data, since the last message of a key counts; and messages
    with a card number or a forbidden field such as a PIN, whose dead letters are masked.

    Examples:  millrace dead-letters replay flink-spark --reason unknown:merchants
               millrace dead-letters replay flink-spark --with corrected.jsonl
    """
    from millrace.patterns import load
    from millrace.target import Target
    from millrace.verbs import letters

    target, variant = Target.read(settings()), load(pattern)
    changed = letters.read_corrected(corrected) if corrected else {}
    found = letters.read(target, variant, reason)
    if corrected:
        found = [letter for letter in found if letter.place in changed]
    replayed = letters.replay(target, variant, found, changed)
    if json:
        print_json("dead-letters replay", pattern=pattern, replayed=replayed.sent, masked=replayed.masked)
        return
    result_console().print(f"{pattern}: {replayed.sent} messages sent again")
    if replayed.masked:
        result_console().print(
            f"{replayed.masked} hold a card number or a forbidden field and were not sent; correct them by --with"
        )


def row(letter: "Letter") -> tuple[str, ...]:
    """A letter in columns."""
    came = datetime.fromtimestamp(letter.ingest_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return came, letter.reason, letter.topic, str(letter.partition), str(letter.offset), letter.excerpt()
