"""millrace dead-letters: rejected messages, and their replay."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from millrace.cli.changes import PatternName, RunName
from millrace.cli.command import Command, Group
from millrace.cli.printing import Json, plain_table, print_json, print_rows, result_console, settings

if TYPE_CHECKING:
    from millrace.verbs.letters import Letter

dead_letters = typer.Typer(
    cls=Group,
    help="List rejected messages with reasons; send them again once the cause is fixed.",
    no_args_is_help=True,
)

Reason = Annotated[
    str,
    typer.Option("--reason", metavar="PREFIX", help="Only reasons with this prefix, such as `json` or `unknown:`."),
]


@dead_letters.command("list", cls=Command)
def list_letters(
    pattern: RunName,
    reason: Reason = "",
    last: Annotated[
        int, typer.Option("--last", metavar="COUNT", min=1, help="How many of the latest messages to show.")
    ] = 20,
    json: Json = False,
) -> None:
    """List the rejected messages of a pattern, each with its reason.

    The output has the count of each reason, then the latest messages with topic, partition and offset. With --json or
    through a pipe it has all messages.

    Examples:
    millrace dead-letters list flink-spark
    millrace dead-letters list flink --reason unknown --json
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
    counts = plain_table("reason", "count")
    for name, count in Counter(letter.reason for letter in found).most_common():
        counts.add_row(name, str(count))
    console.print(counts)
    table = plain_table("came", "reason", "topic", "partition", "offset", "message")
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
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Send only the messages of this file, with its values: JSON lines of topic, partition, offset, value.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Send rejected messages again, each to its original topic. Duplicates and late messages are skipped.

    Three kinds need a correction by --with: reference data, because a newer message with the same key may be there by
    now; messages with a card number or a forbidden field such as a PIN; and those that their topic has deleted since.

    Examples:
    millrace dead-letters replay flink-spark --reason unknown:
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
        counts = {"replayed": replayed.sent, "masked": replayed.masked, "lost": replayed.lost}
        print_json("dead-letters replay", pattern=pattern, **counts)
        return
    result_console().print(f"{pattern}: {replayed.sent} messages sent again")
    if replayed.masked:
        result_console().print(
            f"{replayed.masked} hold a card number or a forbidden field and were not sent; correct them by --with"
        )
    if replayed.lost:
        result_console().print(
            f"{replayed.lost} are no longer in their topic and were not sent; give their values by --with"
        )


def row(letter: "Letter") -> tuple[str, ...]:
    """A letter in columns."""
    came = datetime.fromtimestamp(letter.ingest_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return came, letter.reason, letter.topic, str(letter.partition), str(letter.offset), letter.excerpt()
