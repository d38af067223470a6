"""Spark: a driver for each pattern, small batches of events."""

from millrace.registry import PROMETHEUS, Manifest

ENGINE = Manifest(
    name="spark",
    title="Spark",
    can=frozenset(
        {
            *("event", "real-time", "session", "tumbling", "sliding", "summary", "events-elsewhere"),
            *("persist:hdfs", "persist:hbase", "at-least-once-with-ids"),
        }
    ),
    cannot={
        "fold": "a fold in plain Python is Flink's escape hatch; declare the rule with measures instead",
        "parallel": "one query judges the events of all partitions in batches, and its state cannot be split later",
        "at-most-once": "spark repeats its last batch after a restart; choose at-least-once-with-ids",
        "exactly-once": "spark writes a batch to Kafka without a transaction, and a restart repeats it; "
        "choose at-least-once-with-ids",
        "windows-elsewhere": "spark commits no offsets that the windows of another engine could follow",
    },
    imports=frozenset({"pyspark", "py4j", "pandas", "pyarrow", "happybase", "kafka"}),
    components=("spark",),
    is_default=True,
    profiles=("spark-cluster", PROMETHEUS),
    ports={
        "spark": 40,  # spark://
        "spark-http": 41,
        "spark-worker": 42,
        "spark-worker-http": 43,
    },
    process="job-{pattern}-spark",
    compacts=True,
    counts_late=True,  # summaries are queries of their own, each with a watermark
)
