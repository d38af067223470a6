"""The events that a pattern stored as Parquet, as a data frame."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from millrace import project
from millrace.engines.spark.folders import Folder
from millrace.engines.spark.topics import parsed_type
from millrace.patterns import parquet
from millrace.rules import EventType


def events(spark: SparkSession, root: str, of: EventType) -> DataFrame:
    """Every event that was stored below the root, each once, also while files are being compacted."""
    return stored(spark, root, of, None)


def stored(spark: SparkSession, root: str, of: EventType, places: Sequence[Mapping[str, str]] | None) -> DataFrame:
    """The events of some hours, or of all of them."""
    schema = T.StructType([*parsed_type(of).fields, *(T.StructField(name, T.StringType()) for name in parquet.PLACE)])
    hours = hours_of(spark, root) if places is None else [f"date={each['date']}/hour={each['hour']}" for each in places]
    paths = [f"{root}/{hour}/{name}" for hour in hours for name in live(spark, f"{root}/{hour}")]
    if not paths:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", root).parquet(*paths)


def hours_of(spark: SparkSession, root: str) -> list[str]:
    """The folders that hold Parquet, one for each hour, in the order of time."""
    dates = [name for name in Folder(spark, root).names() if name.startswith("date=")]
    return [f"{date}/{hour}" for date in dates for hour in Folder(spark, f"{root}/{date}").names()]


def live(spark: SparkSession, hour: str) -> list[str]:
    """The files of an hour that count. One listing decides, so a compaction is visible completely or not at all."""
    folder = Folder(spark, hour)
    return parquet.live(folder.names(), ".", lambda name: folder.read(name).splitlines())


def main(arguments: Sequence[str]) -> None:
    """Write columns of all stored events as JSON lines, for readers without Spark."""
    from millrace.engines.spark.session import session

    parser = argparse.ArgumentParser(prog="python -m millrace.engines.spark.reading", description=main.__doc__)
    parser.add_argument("root", help="the folder of a pattern's Parquet, as a URI")
    parser.add_argument("--use", required=True, choices=sorted(project.uses()))
    parser.add_argument("--columns", nargs="+", help="all unless given")
    parser.add_argument("--to", type=Path, help="a file; standard output unless given")
    given = parser.parse_args(arguments)
    spark = session("reading", "local[1]", [])
    found = events(spark, given.root, project.uses()[given.use].enriched)
    rows = found.select(*(given.columns or found.columns)).toLocalIterator()
    with given.to.open("w") if given.to else sys.stdout as out:
        for row in rows:
            out.write(json.dumps(row.asDict()) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
