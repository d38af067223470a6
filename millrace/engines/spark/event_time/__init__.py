"""Event time of Spark's windows: what moves it, and how it reaches each query.

    raw topics --> per-event stage --> intermediate topic ----> windows --------------> alerts
                          |                    |                  ^     |
                          |                    |                  | (1) | time of its last commit
       time of its last   |                    |                  |     v
       commit, or its     +------------------- | ---------------> Clock
       committed offsets                       |                        |
                                               |                        | (2)
                                               |                        v
                                               +-----------------> summary-NAME ------> window numbers

A window closes once the watermark of its query is past its end. A watermark follows the newest event that moves time,
the disorder that its use declares behind it, and no event moves time beyond its own arrival (watermark.py).

Behind another engine each event moves time, unless it has the header of a backlog: tasks that read one do not wait for
each other, and what they write is in no order. Then time follows the job's commits (elsewhere.py). Behind Spark's own
per-event stage no event moves time. That stage writes a batch key by key, so half a batch in the topic is all of some
keys and nothing of others; time moves once the batch is committed.

The Clock (clock.py) looks at all of this about once a second, behind Spark's own stage four times, and sends ticks
(ticks.py), rows of a second source that hold nothing but a moment:

(1) to the windows of rules, the time of the last commit of the per-event stage: of Spark's own, or of another engine's
    once they have read what it covers; and during a silence (silence.py),
    when every message is judged and counted and none has come for IDLE_MS, the time that has passed on the wall clock,
    or the last window would stay open until the next message;
(2) to the summaries, the time that all windows of rules have reached: Spark drops what is behind a watermark without a
    trace, and what those windows admit must be in the numbers, too.

"Judged" is up to the offsets that the per-event stage has committed: in its checkpoint (checkpoints.py) if it is
Spark's own, else under the pattern's name in Kafka (ends.py). A restart loses no time: a tick is its own offset in the
query's checkpoint, and ticks never move a clock back.
"""
