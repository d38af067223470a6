"""Runs all Spark stages of a pattern in one driver.

The driver keeps its progress in a file and stops cleanly on SIGTERM. It restarts a query that fails: RESTARTS_MOST
times, or without limit if the query writes to a store. It ends with an error when an event or window query has used up
its restarts, or when messages were deleted unread.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from millrace.engines.spark import events, files, layouts, tables, topics, windows
from millrace.engines.spark.driver import Driver
from millrace.engines.spark.progress import ProgressFile
from millrace.engines.spark.queries import Query
from millrace.engines.spark.session import session
from millrace.engines.spark.tuning import (
    EVENTS_EVERY,
    FILES_EVERY,
    LOCAL,
    REAL_TIME_EVERY,
    SUMMARIES_EVERY,
    TABLES_EVERY,
    WINDOWS_EVERY,
    master_for,
    reporting,
)
from millrace.patterns import EnginePlan
from millrace.rules import WindowRule


def main(argv: Sequence[str]) -> int:
    arguments = _arguments(argv)
    plan = EnginePlan.read(arguments.plan)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    progress = ProgressFile(arguments.progress)
    progress.write("starting", {})
    jars = [Path(jar) for jar in arguments.jars.split(os.pathsep)]
    name = f"{plan.pattern} (generation {plan.generation})"
    settings = {**plan.options, **(reporting(arguments.prometheus) if arguments.prometheus else {})}
    master = master_for(arguments.master, plan)
    spark = session(name, master, jars, settings, java_options=arguments.java_options)
    if web := spark.sparkContext.uiWebUrl:
        progress = replace(progress, web=web, metrics=f"{web}/{arguments.prometheus}")
    try:
        problem = Driver(spark, plan, list(queries(spark, plan)), progress).run(stop)
    finally:
        spark.stop()
    if problem:
        print(f"{plan.pattern}: {problem}", file=sys.stderr, flush=True)
    return 1 if problem else 0


def queries(spark: SparkSession, plan: EnginePlan) -> Iterator[Query]:
    """Every query of the plan, the per-event stage first."""
    options, place = topics.sink_options(plan.bootstrap), plan.checkpoints
    enriched = [plan.topics[plan.use.enriched.name]]
    if plan.judges_events:
        writer = events.messages(spark, plan).writeStream.format("kafka").options(**options)
        yield Query(
            "events",
            writer,
            f"{place}/events",
            REAL_TIME_EVERY if plan.real_time else EVENTS_EVERY,
            events.reads(plan),
            layouts.of_events(plan),
            is_real_time=plan.real_time,
        )
    if plan.window_rules:
        writer = windows.messages(spark, plan, "windows").writeStream.format("kafka").options(**options)
        yield Query(
            "windows",
            writer,
            f"{place}/{windows_name(plan.window_rules)}",
            WINDOWS_EVERY,
            enriched,
            layouts.of_windows(plan, plan.window_rules),
            goes_on=False,
            follows="events",
        )
    for summary in plan.window_summaries:
        name, checkpoint = f"summary-{summary.name}", f"{place}/numbers-{summary.name}-{summary.version}"
        rows = windows.numbers(spark, plan, summary, name)
        writer = rows.writeStream.format("kafka").options(**options).outputMode("update")
        layout = layouts.of_windows(plan, [summary])
        yield Query(name, writer, checkpoint, SUMMARIES_EVERY, enriched, layout, goes_on=False, follows="rules")
    if "hdfs" in plan.persist:
        checkpoint = f"{place}/files"
        writer = files.events(spark, plan).writeStream.foreachBatch(files.writer(plan, checkpoint))
        yield Query("files", writer, checkpoint, FILES_EVERY, enriched, layouts.of_files(plan), is_store=True)
    if "hbase" in plan.persist:
        writer = tables.messages(spark, plan).writeStream.foreachBatch(tables.writer(plan))
        yield Query("tables", writer, f"{place}/tables", TABLES_EVERY, tables.reads(plan), is_store=True)


def windows_name(rules: Sequence[WindowRule]) -> str:
    """The checkpoint of the rules' windows. Other rules or versions begin with what the topic holds."""
    versions = [f"{rule.name}-{rule.version}" for rule in rules]
    if len(versions) == 1:
        return f"window-{versions[0]}"
    return f"windows-{hashlib.sha256('|'.join(versions).encode()).hexdigest()[:12]}"


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m millrace.engines.spark.job", description=__doc__)
    parser.add_argument("--plan", required=True, help="an engine plan as JSON, or @FILE")
    parser.add_argument("--jars", required=True, help="the Kafka connector's jars and the kernel's")
    parser.add_argument("--progress", required=True, type=Path, help="the file to keep the progress in")
    parser.add_argument(
        "--master", default=LOCAL, help="as Spark names it; the plan decides how many tasks `local` runs"
    )
    parser.add_argument("--prometheus", default="", metavar="PATH", help="give it a page with figures for Prometheus")
    parser.add_argument("--java-options", default="", help="of the driver's JVM, besides its settings")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
