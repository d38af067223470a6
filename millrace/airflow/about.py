"""The texts of the DAGs' pages: what a green run proves, and what to do when a run is red."""

from __future__ import annotations

from millrace import registry
from millrace.patterns import Variant

BUTTONS = " or ".join(f"*{engine.title} job*" for engine in registry.manifests())

DEPLOY_RED = """\
- **provision**: a topic, a contract or a table could not be created, or a new contract would break its readers. The
  last line of the log names it and the remedy.
- **declared**: a topic, contract, folder or table differs from its declaration. The last line of the log names each;
  `millrace provision {name} --plan` lists them too.
- **deploy** or **await_healthy**: an engine did not accept a job, or the job did not reach its first checkpoint. Open
  the {buttons} button of the task; `millrace status` and `millrace logs` show the state of the
  servers. If the log names messages that *were deleted before they were read*, and they cannot be restored, deploy
  with *Accept loss*.
"""

PROVE_RED = """\
- **form**: at that rate the traffic would exceed the time limit of its task, or servers could crash before it begins;
  or the pattern was sent this tape before, the target does not allow traffic, or it is not the local stack, whose
  servers alone can be crashed. Nothing has changed yet; the last line of the log names the remedy.
{deploy_red}- **traffic**: Kafka did not acknowledge the messages. Run `millrace status`.
- **validate**: the verdict is not ok: something was lost, duplicated or wrong, or a check could not run. The *Report*
  tab of the run lists the first errors of each check.
- **teardown**: a job did not stop. Clear the task, or run `millrace teardown {name}`.
"""

CLEARED = """
You may clear any task: verbs are idempotent, so its second run does only what is missing.
"""

TEARDOWN = """# Stop a pattern
Stops the pattern's jobs with savepoints; the next deployment continues from these. Topics, tables and files stay,
unless *Remove the data* is set in the form.

### When it is red
**teardown**: a job did not stop, or a store does not answer. Run `millrace status`, then clear the task.
"""

RECONCILE = """# Restart dead jobs
Every five minutes, compares the jobs that were deployed with the jobs that run. Restarts each dead job, as it was
deployed, from its newest savepoint or checkpoint. A run is red if a job is sick, runs twice or was never deployed.

### When it is red
- **nothing_extra** names a job that was never deployed or runs twice, with its id and its engine. `reconcile` stops no
  job. Cancel it on the engine's page, or deploy its pattern.
- **nothing_extra** names a sick job and the reason: *degraded* (a store is unreachable; the job retries),
  *crash-looping*, *stalled* or *given-up*. Fix the cause; `millrace jobs PATTERN` shows the recovery.
- **reconcile**: a server does not answer. Run `millrace status`, then `millrace up`.
- **await_healthy**: a restarted job did not reach its first checkpoint. Open the job's button.
"""

LEDGER = """# Judge patterns as long as they run
Every five minutes, judges what has come out of each pattern that was deployed with *Judge continuously*. A pattern is
judged in segments of a minute, each once, so it may be older than what its topics retain. Where the watcher of a stack
keeps a validator running, this DAG looks at what that has written. Each run looks back to the start of the run before
the last one, so a red segment is shown in two runs. `millrace verdicts PATTERN` shows the whole ledger.

### When it is red
- **judge** names the pattern, the segment and the first offenders. A *failed* segment has lost, doubled or wrong
  output. An *unknown* one could not be judged: its messages or the ledger's state were deleted.
- **judge** names a ledger that is broken: an entry was altered, or a message is no entry.
"""

UPGRADE = """# Upgrade running jobs
On engines that can, a trial job first restores a copy of the running job's state, from the pattern as declared now. If
the restore fails, the upgrade is refused, and the running job stays untouched. Otherwise the job stops with its state,
the next generation starts from it, and `validate` checks the pattern: a pattern with a ledger by its segments since
then, any other from its first message. If the verdict is *failed*, or there is none, the previous generation starts
again from that state. There is also none if the task `upgrade` failed midway. After an *unknown* one the upgrade stays,
and the run is red: no check has found a fault, and what could not be judged is not judged after a roll-back either. The
task `upgrade` returns the measured gap: how long no output came although messages arrived.

### When it is red
- **upgrade** was *refused*: the state of the running job does not fit the changed pattern. The running job is
  untouched, and **roll_back** finds nothing to undo. Change the pattern so that the state fits, or run
  `millrace teardown`, then `millrace deploy --fresh`.
- **upgrade** was refused because the pattern is *not provisioned*, or a *contract would break*: the last line of the
  log names what is missing, or the remedy. The running job is untouched. After `millrace provision PATTERN` trigger the
  DAG again.
- **upgrade** failed after the old job had stopped, and **roll_back** has restored the previous generation. The last
  line of the log of **upgrade** names the cause; correct it, and trigger the DAG again.
- **validate** is *failed*, and **roll_back** has restored the previous generation. Correct the pattern's file, or the
  next `deploy` starts the same change again.
- **validate** is *unknown*, and the upgrade stays: the log of **roll_back** names the checks that could not decide, and
  why. Judge again with `millrace validate PATTERN`; `millrace roll-back PATTERN` undoes the upgrade.
- **roll_back**: a job did not start again. Run `millrace roll-back PATTERN`, or clear the task.
"""

COMPARE = """# Compare patterns on the same tape
Runs after each verdict `ok` of a `prove` DAG. If other patterns also have an `ok` on the same tape (`tape` in the
form), the task returns alerts, latency and cost of all, side by side. Alerts are those that are still in their topics;
each verdict has compared them with the oracle.

### When it is red
**compare** names the record that is missing, or the difference of the two tapes: give both runs the same events, rate,
seed and shares. A tape is sent to a pattern once: repeat a comparison under a new name of the tape, on all patterns.
"""

COMPACT = """# Merge small files
A streaming job writes many small Parquet files. This DAG merges the files of each finished hour into one; jobs may
write and read meanwhile. The next run completes a compaction that was killed.

### When it is red
Clear the task; it continues where it stopped. If HDFS does not answer, run `millrace status` first.
"""

REPLAY = """# Replay dead letters
Sends rejected messages again, each to its original topic. Fix the cause first: missing
reference data, a faulty producer.
*Reason begins with* selects messages by the beginning of their reason (`unknown:`, `json`); empty selects
all. Duplicates and late events are never sent again. Reference data, and messages with a card number or a forbidden
field, are not sent again as they came: their producer sends corrected ones, or you do, with
`millrace dead-letters replay PATTERN --with FILE`. So it is with messages that their topic has deleted since. The
result of the task counts those of both kinds that were not sent: `masked` and `lost`. A message that is replayed twice
is accepted once, where its events have an id.

### When it is red
- **None of the messages can be sent**: the last line of the log counts those that their topic has deleted, and those
  with a card number or a forbidden field. Nothing was sent. Send corrected ones, as above.
- **Another replay runs**: the last line of the log names it. Clear the task once it has ended.
- **Kafka does not answer**: run `millrace status`, then clear the task to send the rest.
"""


def deploy_doc(variant: Variant) -> str:
    """The page of the DAG that deploys a pattern."""
    name = variant.name
    return f"""# Deploy: {variant.pattern.title}
{_stages(variant)}

Creates the topics and tables that the pattern declares, starts its jobs, and leaves them running. **It sends no
events and tears nothing down.** A job that runs as declared stays untouched. A job that differs from its declaration
stops with a savepoint, and the declared job starts from it. The DAG `reconcile` restarts dead jobs; the DAG
`teardown` stops jobs.

For generated traffic and a verdict, trigger `prove-{name}`.

### What a green run proves
Every topic, contract, folder and table is as declared. Every job runs and has completed a checkpoint.

### When it is red
{_deploy_red(name)}{CLEARED}"""


def prove_doc(variant: Variant) -> str:
    """The page of the DAG that proves a pattern."""
    name, pattern = variant.name, variant.pattern
    rules = "\n".join(f"- **{rule.name}**: {rule.doc}" for rule in (*variant.event_rules, *variant.window_rules))
    return f"""# Prove: {pattern.title}
{_stages(variant)}

Deploys the pattern, **sends generated events to it**, crashes the servers that the form selects, validates the
output, and tears the pattern down. If the pattern ran before, by `deploy-{name}` or by hand, the run uses its jobs
and leaves them running. Servers of your own get generated events only if their target file has
`"allow_traffic": true`.

### What a green run proves
With this traffic on these servers, no event was lost or duplicated, the alerts are exactly those of the oracle, and
every invalid message became a dead letter with its reason. A check that could not run makes the run red.

The run also measures the promised latency: the p99 of per-event alerts is at most
{pattern.promises.alert_latency_ms_p99} ms at 1,000 events/s, once the jobs are warm. It reports the result beside the
verdict.

The rules:

{rules}

### When it is red
{PROVE_RED.format(name=name, deploy_red=_deploy_red(name))}{CLEARED}"""


def _deploy_red(name: str) -> str:
    return DEPLOY_RED.format(name=name, buttons=BUTTONS)


def _stages(variant: Variant) -> str:
    stages = variant.pattern.stages
    paced = " in real time" if stages.events.real_time else ""
    stored = f", persisted by {stages.persist.engine} to {' and '.join(stages.persist.to)}" if stages.persist else ""
    windows = f", windows on **{stages.windows.engine}**" if stages.windows else ", no windows"
    return f"""{variant.pattern.doc}

Per-event stage on **{stages.events.engine}**{paced}{windows}{stored}."""
