"""The settings on which recovery, lateness and the use of a small machine rest, each with its reason."""

from __future__ import annotations

AT_ONCE = "0 seconds"
EVENTS_EVERY = "1 second"  # where Spark is the per-event engine; a batch takes longer than that when there is traffic
WINDOWS_EVERY = (
    "5 seconds"  # a burst is told 15 s after its end at best; a batch costs half a second of CPU, however small
)
FILES_EVERY = "15 seconds"  # each batch makes a file for each hour it touches, so not too often
TABLES_EVERY = "5 seconds"
PERSIST_ROWS_MOST = 100_000  # in one batch of a store, so that a backlog does not become one huge batch
IDLE_MS = 10_000  # without any traffic for so long, event time follows the wall clock (ticks.py)
DRAINED_AHEAD_MS = 86_400_000  # farther than any clock may be ahead: at the end of a drain every window is closed
IDS_EVERY_S = 10.0  # how long a topic that was deleted and created anew is read as if it were the same
LOOK_EVERY_S = 1.0  # how old the progress file may be, and how finely time goes on in silence
RESTARTS_MOST = 5  # of a query that does not complete a batch in between
RESTART_PAUSE_S_MOST = 30
STORE_PAUSE_S_MOST = 60  # a query that writes to a store tries for ever: the store may be away for hours
STORES_WAIT_S = 60  # at a start, until the windows have begun: they are waited for, and there are two cores
FORGOTTEN_MARGIN_MS = 60_000  # how far the clocks of Kafka, HDFS and this machine may differ
# Behind a per-event stage of another engine, which promises milliseconds on the same cores; but not before the windows
# have begun: on a busy machine a start behind all others takes minutes, in which nothing comes out.
BACKGROUND_NICE = 10

# Windows and the per-event stage take all there is in one batch, however large: a limit would let one partition or
# topic run ahead of another by minutes, and then events would be late, or judged in the wrong order, for no reason.

# A small batch costs what its plan costs, task by task, and hardly what its rows cost; and there are more queries than
# cores. A cluster that is to share one query among machines raises this before the first start: state cannot be split.
TASKS = 1

SPARK_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "640m",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:+ExitOnOutOfMemoryError -Djava.awt.headless=true",
    # Spark writes Java for each step of a plan and keeps the classes of 100; five queries have more. What is not
    # kept is compiled anew in every batch and never runs long enough to become fast.
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
    # State that expires makes Spark run an empty batch at every trigger for ever; time without events is told by ticks.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.pollingDelay": "100ms",  # between two looks for messages; the default, 10 ms, is a busy loop
    "spark.sql.streaming.minBatchesToRetain": "20",
    # A number too large for its type is null, "cannot judge", never the end of the query.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.chunkBase64String.enabled": "false",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    # A NameNode that refuses connections is away after 3 s, not 10: the driver looks at its queries again.
    "spark.hadoop.ipc.client.connect.max.retries": "3",
}
