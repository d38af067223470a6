"""The settings on which latency, delivery and recovery rest, each with its reason."""

from __future__ import annotations

# A record leaves a task at once. A timeout would wake a thread of each task that often, whether records come or not: at
# 1 ms that was most of an idle job's processor time, and alerts came later than without.
BUFFER_TIMEOUT_MS = 0
SINK_LINGER_MS = 0  # records leave at once; many at once still travel in batches behind the request in flight
IDLE_SOURCE_MS = 5_000  # a partition without traffic holds back no window for longer than this
# What a restart repeats at most; sinks are at least once, so latency does not wait for it.
CHECKPOINT_INTERVAL_MS = 10_000
FAILURES_KEPT = 50  # of a job, by the JobManager: RESTARTS_KEPT of millrace/job.py

# Sessions of events that touch are merged, and one fires a millisecond before an event could still touch it: so an
# event counts as late one millisecond early, and the watermark makes up for it.
DISORDER_MARGIN_MS = 2
LATE_MARGIN_MS = 1

IGNORE_UNCLAIMED = "execution.state-recovery.ignore-unclaimed-state"
JOB_SETTINGS = {
    "execution.buffer-timeout": f"{BUFFER_TIMEOUT_MS} ms",
    "execution.checkpointing.interval": f"{CHECKPOINT_INTERVAL_MS} ms",
    "execution.checkpointing.mode": "EXACTLY_ONCE",  # of the state; the sinks are at least once
    "execution.checkpointing.min-pause": "500 ms",
    # Alerts do not wait for an unreachable store: the job runs, shown as stalled until a checkpoint completes.
    "execution.checkpointing.tolerable-failed-checkpoints": "2147483647",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    IGNORE_UNCLAIMED: "true",  # the state of a removed rule is dropped on purpose
    "pipeline.object-reuse": "true",  # 15 to 20 % more events for the same CPU; no operator here keeps its input
    "pipeline.auto-watermark-interval": "50 ms",  # session alerts wait for the watermark; the default is 200 ms
    "table.exec.source.idle-timeout": f"{IDLE_SOURCE_MS} ms",
    "table.local-time-zone": "UTC",
}

# The end of a finite stream is a watermark, and Flink passes none on from an idle source.
FINITE_SETTINGS = {"table.exec.source.idle-timeout": "0 ms"}

SINK_OPTIONS = {
    "sink.delivery-guarantee": "at-least-once",
    "properties.linger.ms": str(SINK_LINGER_MS),
    "properties.acks": "all",
    "properties.enable.idempotence": "true",
}
