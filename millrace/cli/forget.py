"""millrace forget: remove one key from a pattern's tables."""

from typing import Annotated

import typer

from millrace.cli.changes import RunName
from millrace.cli.consent import Yes, require_consent
from millrace.cli.printing import Json, fields, print_json, result_console, settings


def forget(
    pattern: RunName,
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="The key to forget; `millrace topics tail` prints it with each alert.")
    ],
    field: Annotated[
        str,
        typer.Option(
            "--field", metavar="FIELD", help="The field that has this value. Default: the one that keys the topics."
        ),
    ] = "",
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove a key from all tables of a pattern, and its reference data.

    The pattern may run: events that arrived before are not written again, and events that arrive later count as those
    of a new key. The verdict counts the removed rows as forgotten. HBase keeps a mark with a digest of the key.

    Not removed: messages in topics, until their retention; a reference's old message, until Kafka compacts the topic;
    Parquet files on HDFS; the state of the jobs and of the ledger; notes of marks; reports and records of verdicts;
    values in rows of other keys. The output names each place of the pattern, and until when. A backfill has tables and
    topics of its own: name it in place of the pattern.

    Examples:
    millrace forget flink-spark KEY
    millrace forget flink KEY --field FIELD --yes
    """
    from millrace.target import Target
    from millrace.verbs import forget as forgetting

    target = Target.read(settings())
    require_consent(
        f"forget {pattern} {key}",
        lambda: forgetting.rows_of(target, pattern, key, field=field),
        yes=yes,
        json=json,
    )
    gone = forgetting.forget(target, pattern, key, field=field)
    if json:
        print_json("forget", pattern=pattern, key=key, **fields(gone))
        return
    console = result_console()
    for table, rows in gone.rows.items():
        console.print(f"{table:<20} {rows} rows removed", markup=False)
    for reference in gone.references:
        console.print(f"{reference:<20} deleted by a tombstone", markup=False)
    console.print(f"{pattern}: {gone.field} {key} is forgotten in these; it is still in", markup=False)
    for what, until in gone.kept.items():
        console.print(f"  {what}: {until}", markup=False)
