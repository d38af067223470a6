"""Flink: jobs of a session cluster, each event as it arrives."""

from millrace.registry import PROMETHEUS, Manifest

ENGINE = Manifest(
    name="flink",
    title="Flink",
    can=frozenset(
        {
            *("event", "fold", "parallel", "session", "tumbling", "sliding", "summary", "windows-elsewhere"),
            "at-least-once-with-ids",
        }
    ),
    cannot={
        "real-time": "flink writes each event as it comes without it",
        "events-elsewhere": "flink windows run inside the flink events stage",
        "persist:hdfs": "flink writes to Kafka only",
        "persist:hbase": "flink writes to Kafka only",
        "at-most-once": "flink reads again from its newest checkpoint; choose at-least-once-with-ids",
        "exactly-once": "flink sends alerts at once instead of with its checkpoints, and a restart repeats them; "
        "choose at-least-once-with-ids",
    },
    imports=frozenset({"pyflink", "py4j"}),
    components=("flink", "flink-hadoop"),
    needs=("hdfs",),
    is_default=True,
    profiles=(PROMETHEUS,),
    ports={
        "flink": 30,  # REST and web page
        "flink-jobmanager": 31,
        "flink-jobmanager-blob": 32,
        "flink-jobmanager-metrics": 33,
        "flink-taskmanager": 34,
        "flink-taskmanager-data": 35,
        "flink-taskmanager-metrics": 36,
        "flink-jobmanager-prometheus": 37,
        "flink-taskmanager-prometheus": 38,
    },
    process="flink-taskmanager",  # which all jobs share: the cost is a pattern's own while it runs alone
    skew_ms=200,  # its source keeps the order of arrival across topics (decision 0005)
    survives=("flink-taskmanager", "flink-jobmanager"),
    forgets_if_fresh=True,
)
