"""What a DAG's page says: what the run proves, and what to do when it is red."""

from __future__ import annotations

from millrace.engines import registry
from millrace.patterns import Variant

BUTTONS = " or ".join(f"*{engine.title} job*" for engine in registry.manifests())

DEPLOY_RED = """\
- **provision**: a topic, a contract or a table could not be made, or a contract would break its readers. The last line
  of the log names it and the remedy.
- **declared**: a topic, contract, folder or table is not as declared; the last line of the log names each.
  `millrace provision {name} --plan` shows the same.
- **deploy** or **await_healthy**: a job was not taken, or did not reach its first checkpoint. Open the
  {buttons} button of the task; `millrace status` and `millrace logs` say how the servers are. Where messages *were
  deleted before they were read*, deploy with *Accept loss* once nobody can bring them back.
"""

PROVE_RED = """\
- **form**: the events would take longer at that rate than the task `traffic` has, or the target allows no traffic.
  Nothing was done yet; the last line of the log says what to change.
{deploy_red}- **traffic**: Kafka did not take the messages; `millrace status`.
- **validate**: the verdict is not ok: something was lost, doubled or wrongly judged, or could not be checked. The
  *Report* tab of the run names the first offenders.
- **teardown**: a job did not stop. Clear the task, or say `millrace teardown {name}`.
"""

CLEARED = """
Any task may be cleared and runs again: each verb looks at what is there and does only what is missing.
"""

TEARDOWN = """# Stop a pattern
Its jobs stop with a savepoint, so that the next deployment goes on where they stopped. Topics, tables and files stay,
unless the form asks to remove them.

### When it is red
**teardown**: a job did not stop, or a store does not answer: `millrace status`. Clear the task.
"""


RECONCILE = """# Declared against running
Every five minutes: whatever was deployed and not torn down ought to run. A job that is gone goes on from its newest
savepoint or checkpoint, as what it was; a job that runs though nobody asked for it, runs twice, or is sick makes the
run red.

### When it is red
- **reconcile** names a job that is *extra*, with its id and its place. Nothing is stopped by itself: look at it, then
  cancel it on the engine's page, or deploy its pattern if it ought to run.
- **reconcile** names a job that is *degraded* (a store is away; it retries), *crash-looping*, *stalled* or *given-up*,
  with the reason: mend that; `millrace jobs PATTERN` shows when it is well.
- **reconcile** says that a server does not answer: `millrace status`, `millrace up`.
- **await_healthy**: a job was started again and does not get to its first checkpoint; open its button.
"""

UPGRADE = """# The next generation
Takes a copy of the running job's state and lets a trial job restore it. If it cannot, the upgrade is refused and
nothing has happened. If it can, the job stops with a savepoint, its next generation goes on from there, and a verdict
is asked for. If that is not ok, what ran before goes on from the savepoint. The task `upgrade` returns the measured
gap: how long nothing came out while messages came in.

### When it is red
- **upgrade** says *refused*: the state of the running job does not fit what the pattern says now. The old job still
  runs. Change the pattern so that its state fits, or `millrace teardown` and `millrace deploy --fresh`.
- **validate**: the verdict is not ok; **roll_back** has put the old generation back. The pattern's file still says
  the new: mend it, or the next `deploy` asks for it again.
- **roll_back**: say `millrace roll-back PATTERN`, or clear the task.
"""

COMPARE = """# Two patterns on the same tape
Whenever a `prove` DAG has a verdict that is ok: if another pattern judged the same tape (the `tape` of the run's form),
latency and processor time of both are put side by side in what the task returns. Each verdict has compared the alerts
with the oracle, so here they are not compared again.

### When it is red
**compare** names what is missing, or what differs in the two tapes: give both runs the same events, rate, seed and
shares.
"""

COMPACT = """# Many small files become one
A streaming job writes many small Parquet files; a finished hour of them becomes one, while events are stored and read.
A compaction that was killed is finished by the next.

### When it is red
Clear the task; it goes on where it stopped. `millrace status` if HDFS does not answer.
"""

REPLAY = """# A second chance for dead letters
Sends refused messages again to the topic they came in by, once the cause is mended: a merchant that was missing, a
producer that wrote nonsense. Give the beginning of a reason (`unknown:merchants`, `json`) or none for all. Duplicates
and late events never are sent again, nor is reference data, nor what came with a card number or a field that must
never come: its producer sends a better one, or somebody does with
`millrace dead-letters replay PATTERN --with FILE`. A message that is replayed twice is accepted once.

### When it is red
Kafka does not answer: `millrace status`. Clear the task to send the rest.
"""


def deploy_doc(variant: Variant) -> str:
    """The page of the DAG that deploys a pattern."""
    name = variant.name
    return f"""# Deploy: {variant.pattern.title}
{_stages(variant)}

Makes the topics and tables that the pattern declares, starts its jobs, and leaves them running. **It sends no events
and tears nothing down.** A job that runs as declared is left alone; one that runs otherwise goes on, with its state,
as the pattern declares now. `reconcile` then looks after the jobs; the DAG `teardown` stops them.

To see the pattern judged, with invented traffic and a verdict, trigger `prove-{name}`.

### What a green run says
Every topic, contract, folder and table is as declared, and every job runs and has completed a checkpoint.

### When it is red
{_deploy_red(name)}{CLEARED}"""


def prove_doc(variant: Variant) -> str:
    """The page of the DAG that proves a pattern."""
    name, pattern = variant.name, variant.pattern
    rules = "\n".join(f"- **{rule.name}**: {rule.doc}" for rule in (*variant.event_rules, *variant.window_rules))
    return f"""# Prove: {pattern.title}
{_stages(variant)}

Deploys the pattern, **sends it invented events**, crashes servers if asked to, judges what comes out, and tears the
pattern down again. A pattern that ran before, by `deploy-{name}` or by hand, is used as it runs and left running.
A target of yours gets invented events only if it says `"allow_traffic": true`.

### What a green run proves
That on these servers, with this traffic, nothing was lost or doubled by id, that every alert is exactly the one the
rules' plain meaning gives, and that everything bad ended as a dead letter with its reason. The promise
(p99 of per-event alerts within {pattern.promises.alert_latency_ms_p99} ms at 1,000 events/s, once the jobs are warm) is
measured and reported beside it. A check that could not run makes the run red.

The rules:

{rules}

### When it is red
{PROVE_RED.format(name=name, deploy_red=_deploy_red(name))}{CLEARED}"""


def _deploy_red(name: str) -> str:
    return DEPLOY_RED.format(name=name, buttons=BUTTONS)


def _stages(variant: Variant) -> str:
    stages = variant.pattern.stages
    stored = f", persisted by {stages.persist.engine} to {' and '.join(stages.persist.to)}" if stages.persist else ""
    return f"""{variant.pattern.doc}

Per-event stage on **{stages.events.engine}**, windows on **{stages.windows.engine}**{stored}."""
