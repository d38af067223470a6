"""Storing, reading and compacting against each other, in one session; prints what it read as one line of JSON."""

import json
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from types import SimpleNamespace
from unittest import mock

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from millrace.engines.spark import compaction, files, reading
from millrace.engines.spark.folders import Folder
from millrace.engines.spark.session import session
from millrace.engines.spark.topics import parsed_type
from pipelines.fraud import FRAUD

HOUR_MS = 3_600_000
BEGAN_MS = int(time.time() * 1000)
NEW_MS = BEGAN_MS + HOUR_MS
"""An arrival after the query's state began: the state knows such an event."""


def main(root: str, checkpoint: str) -> None:
    spark = session("files drill", "local[2]", [])
    Folder(spark, checkpoint).write("metadata", "{}")
    store = files.ParquetFolder(root, checkpoint, FRAUD.enriched, FRAUD.judged.remembered_ms)
    spark.sparkContext.setLocalProperty("sql.streaming.queryId", "drill")

    store.write(batch(spark, range(0, 10)), 0)
    store.write(batch(spark, range(0, 10)), 0)
    said = {"a batch again": stored(spark, root)}

    half_moved(store, spark, root)
    said["a batch that was killed while it was moved"] = stored(spark, root)

    store.write(batch(spark, range(15, 25), arrived_ms=BEGAN_MS), 2)
    said["repetitions older than the state"] = stored(spark, root)

    for number in range(3, 7):
        store.write(batch(spark, range(number * 10, number * 10 + 10)), number)
    said["before compaction"] = stored(spark, root)
    said["files before"] = len(parquet(spark, root))

    said["during compaction"] = while_compacting(spark, store, root)
    said["files after"] = len(parquet(spark, root))
    said["after compaction"] = stored(spark, root)
    said["to a plain reader"] = counted(spark.read.parquet(root))

    for hour in reading.hours_of(spark, root):
        compaction._rewrite(spark, root, FRAUD.enriched, hour, 2)
    said["when compaction was killed before it was finished"] = stored(spark, root)
    compaction.compact(spark, root, FRAUD.enriched, grace_s=0)
    said["finished by the next"] = counted(spark.read.parquet(root))
    said["places"] = of_two_generations(spark, f"{root}-generations")
    said["a query that was killed before it committed"] = killed_before_commit(spark, f"{root}-query")
    print(json.dumps(said))
    spark.stop()


def of_two_generations(spark: SparkSession, root: str) -> list[str | None]:
    """The places in an hour whose first file has no such column, when its compaction was killed before it ended."""
    hour = "date=2026-11-21/hour=10"
    new = batch(spark, range(5)).withColumn("merchant_place", lit("Ulm"))
    old = batch(spark, range(5, 10)).drop("merchant_place")
    for name, rows in {"a": old, "b": new}.items():
        staging = Folder(spark, f"{root}/{files.STAGING}/{name}")
        rows.coalesce(1).write.parquet(staging.uri)
        written = next(each for each in staging.names() if each.endswith(".parquet"))
        staging.move(written, f"{root}/{hour}/{name}.parquet")
    compaction._rewrite(spark, root, FRAUD.enriched, hour, 2)
    return [row.merchant_place for row in reading.events(spark, root, FRAUD.enriched).collect()]


def killed_before_commit(spark: SparkSession, root: str) -> list[int]:
    """What a stateful query stores that is killed behind the files of a batch, started again, and gets events twice."""
    came, checkpoint = f"{root}-came", f"{root}-checkpoint"
    store = files.ParquetFolder(root, checkpoint, FRAUD.enriched, FRAUD.judged.remembered_ms)
    for numbers in (range(10), range(5, 15)):
        batch(spark, numbers).coalesce(1).write.mode("append").parquet(came)
        once = spark.readStream.schema(parsed_type(FRAUD.enriched)).parquet(came).dropDuplicates(["transaction_id"])
        query = once.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        if numbers[0] == 0:
            with mock.patch.object(files.ParquetFolder, "_forget", side_effect=RuntimeError("killed")):
                killed = query.foreachBatch(store.write).start()
                with suppress(StreamingQueryException):
                    killed.awaitTermination()
            assert killed.exception() is not None
        query.foreachBatch(store.write).start().awaitTermination()
    return stored(spark, root)


def half_moved(store: files.ParquetFolder, spark: SparkSession, root: str) -> None:
    staging = Folder(spark, f"{root}/{files.STAGING}/drill-1")
    store._write(batch(spark, range(10, 20)), staging)
    first = next(path for path in staging.below() if path.endswith(".parquet"))
    staging.move(first, f"{root}/{first}")
    store.write(batch(spark, range(10, 20)), 1)


def while_compacting(spark: SparkSession, store: files.ParquetFolder, root: str) -> list[int]:
    """What readers counted while files were compacted and one more batch was stored."""
    seen: list[tuple[int, int]] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.append(tuple(stored(spark, root)))

    def until_readers_are_done(_: float) -> None:
        """The grace period as long as it must be: what began before it has ended, and one more was read within it."""
        wanted = len(seen) + 2
        while len(seen) < wanted and reader.is_alive():
            time.sleep(0.05)

    reader = threading.Thread(target=read)
    reader.start()
    with mock.patch.object(compaction, "time", SimpleNamespace(sleep=until_readers_are_done)):
        compactor = threading.Thread(target=compaction.compact, args=(spark, root, FRAUD.enriched))
        compactor.start()
        store.write(batch(spark, range(70, 80)), 7)
        compactor.join()
    done.set()
    reader.join()
    return sorted(set(seen))


def stored(spark: SparkSession, root: str) -> list[int]:
    return counted(reading.events(spark, root, FRAUD.enriched))


def counted(rows: DataFrame) -> list[int]:
    """Rows, and different transactions among them."""
    found = Counter(row.transaction_id for row in rows.select("transaction_id").collect())
    return [sum(found.values()), len(found)]


def parquet(spark: SparkSession, root: str) -> list[str]:
    return [p for hour in reading.hours_of(spark, root) for p in reading.live(spark, f"{root}/{hour}")]


def batch(spark: SparkSession, numbers: range, arrived_ms: int = NEW_MS) -> DataFrame:
    """Events of two hours."""
    rows = [
        {
            "transaction_id": f"t{n}",
            "customer": f"C{n % 3}",
            "amount_cents": n,
            "at_ms": BEGAN_MS + (n % 2) * HOUR_MS,
            "ingest_ms": arrived_ms,
        }
        for n in numbers
    ]
    schema = parsed_type(FRAUD.enriched)
    return spark.createDataFrame([tuple(row.get(f.name) for f in schema.fields) for row in rows], schema)


if __name__ == "__main__":
    main(*sys.argv[1:])
