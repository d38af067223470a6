"""What a DAG's page says: what the run proves, and what to do when it is red."""

from __future__ import annotations

from pipelines.patterns import Variant

WHEN_RED = """
### When it is red
- **provision**: a topic, a contract or a table could not be made, or a contract would break its readers. The last line
  of the log names it and the remedy.
- **declared**: a topic or table is not as the pattern says. `millrace provision {name} --plan` shows the difference.
- **deploy** or **await_healthy**: a job was not taken, or did not reach its first checkpoint. Open the *Flink job* or
  *Spark job* button of the task; `millrace status` and `millrace logs` say how the servers are.
- **traffic**: Kafka did not take the messages; `millrace status`.
- **validate**: the verdict is not ok: something was lost, doubled or wrongly judged, or could not be checked. The
  *Report* tab of the run names the first offenders.
- **teardown**: a job did not stop. Clear the task, or say `millrace teardown {name}`.

Any task may be cleared and runs again: each verb looks at what is there and does only what is missing.
"""


def pattern_doc(variant: Variant) -> str:
    """The page of a pattern's DAG."""
    pattern = variant.pattern
    stages = pattern.stages
    rules = "\n".join(f"- **{rule.name}**: {rule.doc}" for rule in (*variant.event_rules, *variant.window_rules))
    stored = f", persisted by {stages.persist.engine} to {' and '.join(stages.persist.to)}" if stages.persist else ""
    return f"""# {pattern.title}
{pattern.doc}

Per-event stage on **{stages.events.engine}**, windows on **{stages.windows.engine}**{stored}.

### What a green run proves
That on this stack, with this traffic, nothing was lost or doubled by id, that every alert is exactly the one the rules'
plain meaning gives, and that everything bad ended as a dead letter with its reason. The promise
(p99 of per-event alerts within {pattern.promises.alert_latency_ms_p99} ms at 1,000 events/s) is measured and reported
beside it. A check that could not run makes the run red.

The rules:

{rules}
{WHEN_RED.format(name=variant.name)}"""
