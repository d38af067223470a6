"""Kafka Streams: a process for each pattern, each event as it arrives; no cluster besides Kafka."""

from millrace.registry import CHANGELOG, Manifest, StateTopic

# The time of a message within a job is none of a clock's: Layout.java puts the stream into it.
OWN_TIME = {"message.timestamp.type": "LogAppendTime"}
DEALT = OWN_TIME | {"retention.ms": "604800000", "retention.bytes": "-1"}
"""Of the topic through which events come to their windows: a job that is down for a week has lost what is in it."""

ENGINE = Manifest(
    name="streams",
    title="Kafka Streams",
    can=frozenset(
        {
            *("event", "parallel", "session", "tumbling", "sliding", "summary", "windows-elsewhere"),
            *("at-least-once-with-ids", "exactly-once"),
        }
    ),
    cannot={
        "real-time": "Kafka Streams writes each event as it comes without it",
        "fold": "a fold in plain Python is Flink's escape hatch; declare the rule with measures instead",
        "at-most-once": "Kafka Streams commits offsets after the outputs; choose exactly-once",
        "events-elsewhere": "its windows run inside its own events stage",
        "persist:hdfs": "Kafka Streams writes to Kafka only",
        "persist:hbase": "Kafka Streams writes to Kafka only",
    },
    has_environment=False,
    components=("streams",),
    kernel_parts=("stage", "kafka"),
    process="job-{pattern}-streams",
    # Kafka Streams makes the names of changelogs, of stores that Layout.java names.
    state_topics=(
        StateTopic("{pattern}-memory-changelog", "events", {**OWN_TIME, **CHANGELOG}),
        StateTopic("{pattern}-windows-changelog", "windows", {**OWN_TIME, **CHANGELOG}),
        StateTopic("{pattern}-dealt", "windows", DEALT),
    ),
    skew_ms=200,  # a task takes the messages of its topics in the order of their arrival
)
