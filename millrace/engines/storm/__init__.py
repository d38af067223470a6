"""Storm: a topology for each pattern, each event as it arrives, in a worker of a cluster."""

from millrace.registry import CHANGELOG, WINDOWS, Manifest, StateTopic

SLOTS = 7
"""Of the supervisor: a job takes one."""
NO_WINDOWS = (
    "a window of Storm closes by a timer of one task, at a watermark that no checkpoint keeps, and failed tuples come "
    "again behind it: its events are not exact; choose another engine for stages.windows"
)
KAFKA_ONLY = "a topology of Storm writes to Kafka only"

ENGINE = Manifest(
    name="storm",
    title="Storm",
    can=frozenset({"event", "parallel", "windows-elsewhere", "at-least-once-with-ids", "exactly-once", "at-most-once"}),
    cannot={
        "real-time": "a topology of Storm writes each event as it comes without it",
        "fold": "a fold in plain Python is Flink's escape hatch; declare the rule with measures instead",
        **dict.fromkeys(WINDOWS, NO_WINDOWS),
        "events-elsewhere": "it has no windows that could follow another engine's events stage",
        "persist:hdfs": KAFKA_ONLY,
        "persist:hbase": KAFKA_ONLY,
    },
    has_environment=False,
    components=("storm",),
    kernel_parts=("stage", "kafka"),
    ports={
        "storm-zookeeper": 80,
        "storm": 81,  # Nimbus
        "storm-supervisor": 82,
        **{f"storm-worker-{number}": 82 + number for number in range(1, SLOTS + 1)},
    },
    process="storm-supervisor",  # which all jobs share: the cost is a pattern's own while it runs alone
    state_topics=(StateTopic("{pattern}-memory", "events", CHANGELOG),),
    skew_ms=200,  # a task takes the messages of its topics in the order of their arrival
    survives=("storm-supervisor", "storm-nimbus"),
)
