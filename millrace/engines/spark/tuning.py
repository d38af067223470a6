"""The settings on which recovery, lateness and the use of a small machine rest, each with its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millrace.patterns import EnginePlan

# What is not after the watermark is late, and an event that is the whole disorder behind the newest is not.
DISORDER_MARGIN_MS = 1
# Spark starts a batch when the time since 1970 is a multiple of the interval. Queries whose intervals have a common
# divisor start together and wait for each other's tasks, so the longer intervals are prime.
EVENTS_EVERY = "500 milliseconds"  # where Spark is the per-event engine
# In real time an event waits for no batch, and a batch only bounds what a restart repeats; Spark takes no shorter one.
REAL_TIME_EVERY = "5 seconds"
WINDOWS_EVERY = "500 milliseconds"  # one batch moves the watermark past a window's end, and only the next one closes it
TABLES_EVERY = "5 seconds"
SUMMARIES_EVERY = "7 seconds"  # each batch looks through all ids that it keeps
FILES_EVERY = "17 seconds"  # each batch makes a file for each hour that it touches, so not too often
PERSIST_ROWS_MOST = 100_000  # in one batch of a store, so that a backlog does not become one huge batch
IDLE_MS = 10_000  # after so long without traffic, event time follows the wall clock (event_time/silence.py)
END_MARGIN_MS = 60_000  # how far beyond the last window's end the time of a finite stream moves
IDS_EVERY_S = 10.0  # how long a topic that was deleted and created anew may be read as if it were the same
PROGRESS_EVERY_S = 1.0  # the age of the progress file
LOOK_EVERY_S = 1.0  # the step of event time in a silence
LOOK_AT_EVENTS_EVERY_S = 0.25  # behind Spark's own per-event stage: windows wait for the look at each of its commits
RESTARTS_MOST = 5  # of a query that completes no batch in between
FAILURES_KEPT = 50  # of a query, with batches in between or not: RESTARTS_KEPT of millrace/job.py
RESTART_PAUSE_S_MOST = 30
STORE_PAUSE_S_MOST = 60  # a query that writes to a store retries without limit: the store may be down for hours
STORES_WAIT_S = 60  # at a start, until the windows have begun: results depend on them, and there are two cores
FORGOTTEN_MARGIN_MS = 60_000  # how far the clocks of Kafka, HDFS and this machine may differ
# Behind a per-event stage of another engine, which promises milliseconds on the same cores; but only once the windows
# have begun: on a busy machine a start at low priority takes minutes, without any output.
BACKGROUND_NICE = 10

# A batch of windows or of the per-event stage has no limit: with one, a partition or topic could run ahead of another
# by minutes, and events would be late, or judged in the wrong order, for no reason.

# The reader of a partition sends its next request before the last answer is used. At the end of the topic the broker
# holds that request back, and every other one of the connection with it: by default for 500 ms, in nearly every batch.
FETCH_WAIT_MS = 10

# A driver without a cluster. How many tasks it runs at once is its own choice: see `master_for`.
LOCAL = "local"
# Some tasks only wait for Kafka or HDFS, while those of other queries are due.
TASKS_AT_ONCE_WITH_EVENTS = 4
# Behind another engine, Spark shares what that leaves of the processors, and windows are the only output in a hurry.
TASKS_AT_ONCE_BEHIND_ANOTHER_ENGINE = 2
# Each is a thread of one JVM of 640 MB, and in real time most of them hold a reader of Kafka.
TASKS_AT_ONCE_MOST = 64

# A small batch costs what its plan costs, task by task, and hardly what its rows cost; and there are more queries than
# cores. A cluster that is to share one query among machines raises this before the first start: state cannot be split.
TASKS = 1

# For minutes Java's optimising compiler competes with the batches for two cores. Without it Java's default
# is a fifth of the code cache: docs/decisions/0047-spark-compiler.md.
COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
JAVA_OPTIONS = f"-XX:+UseSerialGC {COMPILER} -XX:+ExitOnOutOfMemoryError -Djava.awt.headless=true"

SPARK_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "640m",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    # Spark generates Java for each step of a plan and caches the classes of 100; five queries have more. A class that
    # is not cached is compiled in every batch, and never runs long enough to be optimised.
    "spark.sql.codegen.cache.maxEntries": "2000",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": str(TASKS),
    "spark.sql.adaptive.enabled": "false",  # the batches are small and their plans do not change
    "spark.scheduler.mode": "FAIR",  # a long batch of one query does not hold up the others
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # A commit uploads what changed, not whole RocksDB files.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
    "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "128",
    # State that expires makes Spark run an empty batch at every trigger; ticks move time where events do not.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.pollingDelay": "100ms",  # between two looks for messages; the default, 10 ms, is a busy loop
    "spark.sql.streaming.minBatchesToRetain": "20",
    # A number that is too large for its type becomes null and does not fail the query.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.chunkBase64String.enabled": "false",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    # A file is complete once a DataNode has reported it, some milliseconds after it was written. A client that asks too
    # early waits for 400 ms, and a batch writes four files, one after the other. The sum of all waits is as before.
    "spark.hadoop.dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "5",
    "spark.hadoop.dfs.client.block.write.locateFollowingBlock.retries": "11",
    # A NameNode that refuses connections counts as down after 3 s, not 10: the driver has other queries to look at.
    "spark.hadoop.ipc.client.connect.max.retries": "3",
}


def master_for(given: str, plan: EnginePlan) -> str:
    """Spark's own name of the master: `local` gets its number of tasks, every other one stays."""
    return f"{LOCAL}[{tasks_at_once(plan)}]" if given == LOCAL else given


def tasks_at_once(plan: EnginePlan) -> int:
    """How many tasks a driver without a cluster runs."""
    in_turns = TASKS_AT_ONCE_WITH_EVENTS if plan.judges_events else TASKS_AT_ONCE_BEHIND_ANOTHER_ENGINE
    # In real time a task waits at each partition of the raw topics for as long as a batch lasts.
    kinds = (*plan.use.raw, *plan.use.references) if plan.real_time else ()
    return in_turns + len(kinds) * plan.partitions


def reporting(path: str) -> dict[str, str]:
    """The settings of a driver that has a page, on any free port, with its figures for Prometheus at this path."""
    sink = "spark.metrics.conf.driver.sink.prometheusServlet"
    return {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.ui.killEnabled": "false",  # any web page of this machine could press its buttons
        "spark.sql.streaming.metricsEnabled": "true",
        "spark.metrics.namespace": "spark",  # else each start of a driver has names of its own
        f"{sink}.class": "org.apache.spark.metrics.sink.PrometheusServlet",
        f"{sink}.path": f"/{path}",
    }
