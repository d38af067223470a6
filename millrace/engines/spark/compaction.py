"""Rewrites the many small files of an hour as one, while events are stored and read."""

from __future__ import annotations

import argparse
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from millrace import project
from millrace.engines.spark.files import STAGING
from millrace.engines.spark.folders import Folder
from millrace.engines.spark.reading import hours_of, live
from millrace.engines.spark.topics import parsed_type
from millrace.patterns.parquet import COMPACTED, REPLACED
from millrace.rules import EventType

FILES_LEAST = 4  # fewer are not worth a rewrite
GRACE_S = 30  # how long a reader that has listed an hour's files may take to open them


@dataclass(frozen=True)
class Compacted:
    """One hour after its compaction."""

    hour: str
    files: int
    rows: int


def compact(
    spark: SparkSession, root: str, of: EventType, *, files_least: int = FILES_LEAST, grace_s: float = GRACE_S
) -> list[Compacted]:
    """Rewrite each hour of many files as one file.

    The new file and the list of those it replaces exist before the old files are deleted. A reader that uses
    `reading.events` gets the old ones or the new one, never both or neither. One that reads the folder directly
    gets the hour's rows twice during the grace period, and may drop repetitions by their raw message. The
    next compaction finishes one that was killed. Only one may run at a time; events are stored and read meanwhile.
    """
    for hour in hours_of(spark, root):
        _finish(Folder(spark, f"{root}/{hour}"))
    done = [_rewrite(spark, root, of, hour, files_least) for hour in hours_of(spark, root)]
    compacted = [each for each in done if each is not None]
    if compacted:
        time.sleep(grace_s)
    for each in compacted:
        _finish(Folder(spark, f"{root}/{each.hour}"))
    return compacted


def _rewrite(spark: SparkSession, root: str, of: EventType, hour: str, files_least: int) -> Compacted | None:
    folder = Folder(spark, f"{root}/{hour}")
    old = live(spark, folder.uri)
    if len(old) < files_least:
        return None
    # With the declared columns: otherwise Spark takes those of one file, and drops columns that only others have.
    rows = spark.read.schema(parsed_type(of)).parquet(*(f"{folder.uri}/{name}" for name in old))
    staging = Folder(spark, f"{root}/{STAGING}/compaction")
    rows.orderBy(of.key, of.time or "").coalesce(1).write.mode("overwrite").parquet(staging.uri)
    written = next(name for name in staging.names() if name.endswith(".parquet"))
    name = f"{COMPACTED}{uuid.uuid4().hex[:12]}.parquet"
    folder.write(f"{REPLACED}{name}", "\n".join(old))
    count = spark.read.parquet(f"{staging.uri}/{written}").count()
    staging.move(written, f"{folder.uri}/{name}")
    return Compacted(hour, len(old), count)


def _finish(folder: Folder) -> None:
    """Remove the files that a finished rewrite replaced, and the traces of an unfinished one."""
    names = folder.names()
    for name in (name for name in names if name.startswith(REPLACED)):
        if name.removeprefix(REPLACED) in names:
            for old in folder.read(name).splitlines():
                folder.delete(old)
        folder.delete(name)


def main(arguments: Sequence[str]) -> None:
    """Compact the stored events of a pattern."""
    from millrace.engines.spark.session import session

    parser = argparse.ArgumentParser(prog="python -m millrace.engines.spark.compaction", description=main.__doc__)
    parser.add_argument("root", help="the folder of a pattern's Parquet, as a URI")
    parser.add_argument("--use", required=True, choices=sorted(project.uses()))
    parser.add_argument("--grace", type=float, default=GRACE_S, help="seconds that readers have to open old files")
    given = parser.parse_args(arguments)
    spark = session(f"{given.root.rstrip('/').rpartition('/')[2]} (compaction)", "local[1]", [])
    for each in compact(spark, given.root, project.uses()[given.use].enriched, grace_s=given.grace):
        print(f"{each.hour}: {each.files} files became one of {each.rows} events")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
