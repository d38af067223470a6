"""What each record in docs/records measures, and the command that measures it again: the one table of both."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Measurement:
    """How one file in docs/records is made."""

    kind: str
    """What `millrace.records.append` calls it; two files of one kind differ by their command."""
    paths: tuple[str, ...]
    """The git pathspecs that the figures depend on: when a file of them changes, the figures are old. A document counts
    only if a path ends in .md."""
    command: str
    """A line of sh, run in the clone; `$SCRATCH` is an empty folder, and the state of the stack is in it."""
    minutes: int
    """About how long that takes on two cores."""
    is_by_hand: bool = False
    """The command needs another machine or a person, who passes the record on by `--take`."""
    is_of_decision: bool = False
    """It weighed ways of which a decision chose one. The figures are those of that day: later changes of the chosen one
    do not make them old."""


PROJECT = Path(__file__).parent.parent
# Its files, not their folder: one that is moved to another part is none of this part any more.
KERNEL = tuple(str(path.relative_to(PROJECT)) for path in sorted((PROJECT / "millrace/kernel/java").rglob("*.java")))
STAGE = ("millrace/kernel/stage", "millrace/kernel/kafka")
POMS = (
    "millrace/engines/flink/pom.xml",
    "millrace/engines/flink/flink-hadoop/pom.xml",
    "millrace/engines/spark/pom.xml",
)
SERVERS = (
    "millrace/machine/archives.py",
    "millrace/machine/jars",
    *POMS,
    "millrace/machine/processes.py",
    "millrace/engines/flink/servers.py",
    "millrace/servers/hbase.py",
    "millrace/servers/hdfs.py",
    "millrace/servers/kafka.py",
    "millrace/servers/server.py",
    "millrace/engines/spark/servers.py",
    "millrace/stack",
)
JOBS = ("millrace/engines", "millrace/kernel")
SENT = ("millrace/traffic", "millrace/verbs/sending.py", "millrace/verbs/traffic.py")
JUDGED = ("millrace/oracle.py", "millrace/verbs/validate.py", "millrace/verbs/validation.py", "millrace/verify")
DECLARED = ("millrace/patterns", "millrace/rules", "pipelines/fraud")
DEPLOYED = ("millrace/deployments.py", "millrace/job.py", "millrace/verbs/deploy.py", "millrace/verbs/provision.py")
EVERYTHING = ("Makefile", "dags", "lab", "millrace", "pipelines", "pyproject.toml", "terraform", "tests", "uv.lock")

BENCH = (
    "millrace/job.py",
    "millrace/machine/jars/lock.json",
    "millrace/kernel/__init__.py",
    "millrace/servers/hbase.py",
    "millrace/servers/hdfs.py",
    "millrace/servers/kafka.py",
    *SENT,
    "lab/bench.py",
    "pipelines/fraud",
    *KERNEL,
    "millrace/patterns",
    "millrace/rules",
    "millrace/verify/latency.py",
    "uv.lock",
)
FLINK = ("millrace/engines/flink", *KERNEL)
SPARK = ("millrace/engines/spark", "millrace/job_processes.py", *KERNEL)
STREAMS = ("millrace/engines/streams", *KERNEL, *STAGE)
STORM = ("millrace/engines/storm", *KERNEL, *STAGE)

FLINK_ON_STAGE = (
    *("lab/cost.py", "lab/choices/flink", "lab/choices/flink_on_stage.py", *FLINK, *STAGE),
    *("millrace/rules", "pipelines/fraud"),
)
SPARK_IN_PYTHON = ("lab/choices/spark", "lab/choices/spark_in_python.py")
FLOOD = (*(path for path in BENCH if path != "pipelines/fraud"), "pipelines/flood")
FLOOD_COMMAND = ".venv/bin/python -m lab.bench --events 200000 --seed 1"

DRILL = (
    "dags",
    "millrace/airflow",
    "millrace/engines",
    "millrace/deployments.py",
    "millrace/verbs/deploy.py",
    "millrace/machine/processes.py",
    "millrace/servers/airflow.py",
    "lab/airflow_drill.py",
    "lab/airflow_rest.py",
    "uv.lock",
)
DRILL_COMMAND = ".venv/bin/millrace up; .venv/bin/millrace up airflow; .venv/bin/python -m lab.airflow_drill"
WATCH = (
    *SERVERS,
    *(*FLINK, *SPARK),
    *(*DECLARED, *DEPLOYED, *SENT, *JUDGED),
    "millrace/stores",
    "millrace/verbs/watch",
    "tests/infra/test_watch.py",
    "tests/patterns.py",
)
WATCH_COMMAND = ".venv/bin/python -m pytest -m drill tests/infra/test_watch.py -k"
RUNBOOK = (
    *SERVERS,
    *(*FLINK, *SPARK),
    *(*DECLARED, *DEPLOYED, *SENT, *JUDGED),
    "docs/runbook/*.md",
    "infra/prometheus",
    "millrace/cli",
    "millrace/dashboard",
    "millrace/servers/dashboard.py",
    "millrace/stores",
    "millrace/verbs",
    "tests/dashboard/scraping.py",
    "tests/infra/test_runbook.py",
    "tests/patterns.py",
)
RUNBOOK_COMMAND = ".venv/bin/python -m pytest -m drill tests/infra/test_runbook.py"
ENDLESS = (
    *WATCH,
    "millrace/dashboard/*.py",
    "millrace/servers/dashboard.py",
    "millrace/settings.py",
    "millrace/verbs",
    "tests/infra/test_endless.py",
    "tests/uses/team.py",
)
ENDLESS_COMMAND = ".venv/bin/python -m pytest -m drill tests/infra/test_endless.py"
VARIANTS = (
    *SERVERS,
    *JOBS,
    *(*DEPLOYED, *SENT, *JUDGED),
    "millrace/patterns",
    "millrace/rules",
    "millrace/stores",
    "millrace/verbs",
    "pipelines",
    "tests/beside.py",
    "tests/test_variants.py",
)
# What the two oracles and the engines read, beside the rules that are invented.
FUZZED = (*JOBS, *JUDGED, "millrace/rules", "tests/fuzz.py", "tests/second", "tests/uses")
VARIANTS_COMMAND = ".venv/bin/python -m pytest -m drill"
TERRAFORM_TEST = "tests/terraform/test_local_target.py::test_a_pattern_of_two_engines_and_stores_lives_a_whole_life"
# What a machine must have, and what is fetched for it.
NEW_ROOT = (
    ".ci",
    "Makefile",
    "millrace/machine/environments.py",
    "millrace/machine/npm",
    "millrace/machine/prerequisites.py",
    "millrace/machine/registries.py",
    "millrace/machine/setup.py",
    "pyproject.toml",
)
# What decides over order, load and deadlines of all tests together; a test that is changed has its own run.
LUCK = ("Makefile", "millrace/machine/processes.py", "tests/conftest.py", "tests/measuring.py")

MEASUREMENTS = {
    "setup": Measurement(
        "setup",
        (
            "millrace/machine/environments.py",
            "millrace/machine/jars",
            *POMS,
            "millrace/kernel/__init__.py",
            "millrace/machine/setup.py",
            "millrace/kernel",
            "pyproject.toml",
            "uv.lock",
        ),
        'git clone --quiet . "$SCRATCH/clone"; MILLRACE_HOME="$SCRATCH/home" make -C "$SCRATCH/clone" setup',
        minutes=3,
    ),
    # One command makes both: `down` counts the memory of servers that have worked.
    "up": Measurement("up", SERVERS, ".venv/bin/millrace demo", minutes=5),
    "down": Measurement("down", (*SERVERS, *JOBS), ".venv/bin/millrace demo", minutes=5),
    "bench-flink-spark": Measurement(
        "bench-flink-spark",
        (*BENCH, *FLINK, *SPARK),
        ".venv/bin/python -m lab.bench flink-spark --seed 2",
        minutes=5,
    ),
    "bench-flink-spark-5000": Measurement(
        "bench-flink-spark",
        (*BENCH, *FLINK, *SPARK),
        ".venv/bin/python -m lab.bench flink-spark --rate 5000 --seed 1",
        minutes=5,
    ),
    "bench-flink": Measurement(
        "bench-flink", (*BENCH, *FLINK, *SPARK), ".venv/bin/python -m lab.bench flink --seed 2", minutes=5
    ),
    "bench-spark": Measurement(
        "bench-spark", (*BENCH, *SPARK), ".venv/bin/python -m lab.bench spark --seed 2", minutes=5
    ),
    "bench-flood-flink-spark": Measurement(
        "bench-flood-flink-spark", (*FLOOD, *FLINK, *SPARK), f"{FLOOD_COMMAND} flood-flink-spark", minutes=8
    ),
    "bench-flood-flink": Measurement("bench-flood-flink", (*FLOOD, *FLINK), f"{FLOOD_COMMAND} flood-flink", minutes=8),
    "bench-flood-spark": Measurement("bench-flood-spark", (*FLOOD, *SPARK), f"{FLOOD_COMMAND} flood-spark", minutes=8),
    "bench-flood-spark-realtime": Measurement(
        "bench-flood-spark-realtime", (*FLOOD, *SPARK), f"{FLOOD_COMMAND} flood-spark-realtime", minutes=8
    ),
    "bench-streams-spark": Measurement(
        "bench-streams-spark",
        (*BENCH, *STREAMS, *SPARK),
        ".venv/bin/python -m lab.bench streams-spark --seed 2",
        minutes=5,
    ),
    "bench-storm-spark": Measurement(
        "bench-storm-spark",
        (*BENCH, *STORM, *SPARK),
        ".venv/bin/python -m lab.bench storm-spark --seed 2",
        minutes=5,
    ),
    **{
        f"bench-{name}": Measurement(
            f"bench-{name}", (*BENCH, *STORM), f".venv/bin/python -m lab.bench {name} --seed 2", minutes=5
        )
        for name in ("storm", "storm-exactly-once", "storm-at-most-once")
    },
    "storm-kills": Measurement(
        "storm-kills",
        (*STORM, "millrace/rules", "millrace/verify", "pipelines/fraud", "tests/storm/test_verdict.py"),
        ".venv/bin/python -m pytest -m drill tests/storm/test_verdict.py -k counted",
        minutes=10,
    ),
    "bench-streams": Measurement(
        "bench-streams", (*BENCH, *STREAMS, *SPARK), ".venv/bin/python -m lab.bench streams --seed 2", minutes=5
    ),
    "bench-flood-streams": Measurement(
        "bench-flood-streams", (*FLOOD, *STREAMS), f"{FLOOD_COMMAND} flood-streams", minutes=8
    ),
    "cost": Measurement(
        "cost",
        ("lab/cost.py", "lab/handwritten", *FLINK, *SPARK, *STREAMS, "millrace/rules", "pipelines/fraud"),
        ".venv/bin/python -m lab.cost",
        minutes=22,
    ),
    "cost-burst": Measurement(
        "cost-burst",
        ("lab/cost.py", "lab/handwritten", *FLINK, *SPARK, *STREAMS, "millrace/rules", "pipelines/fraud"),
        ".venv/bin/python -m lab.cost --burst",
        minutes=25,
    ),
    "profile": Measurement(
        "profile",
        ("lab/cost.py", "lab/profile.py", "lab/handwritten", *FLINK, "millrace/rules", "pipelines/fraud"),
        ".venv/bin/python -m lab.cost flink --repeats 1 --profile",
        minutes=4,
    ),
    "profile-burst": Measurement(
        "profile-burst",
        (
            "lab/cost.py",
            "lab/profile.py",
            "lab/handwritten",
            *FLINK,
            *SPARK,
            *STREAMS,
            "millrace/rules",
            "pipelines/fraud",
        ),
        ".venv/bin/python -m lab.cost --burst --repeats 1 --profile",
        minutes=10,
    ),
    "cost-flink-on-stage": Measurement(
        "cost-flink-on-stage",
        FLINK_ON_STAGE,
        ".venv/bin/python -m lab.choices.flink_on_stage",
        minutes=8,
        is_of_decision=True,
    ),
    "profile-flink-on-stage": Measurement(
        "profile-flink-on-stage",
        ("lab/profile.py", *FLINK_ON_STAGE),
        ".venv/bin/python -m lab.choices.flink_on_stage --repeats 1 --profile",
        minutes=4,
        is_of_decision=True,
    ),
    "cost-on-samza": Measurement(
        "cost-on-samza",
        (
            *("lab/cost.py", "lab/choices/samza", "lab/choices/on_samza.py", *STREAMS),
            *("millrace/rules", "pipelines/fraud"),
        ),
        ".venv/bin/python -m lab.choices.on_samza",
        minutes=8,
        is_of_decision=True,
    ),
    "cost-spark-in-python": Measurement(
        "cost-spark-in-python",
        ("lab/cost.py", *SPARK_IN_PYTHON, *SPARK, "millrace/oracle.py", "millrace/rules", "pipelines/fraud"),
        ".venv/bin/python -m lab.choices.spark_in_python --events 200000",
        minutes=10,
        is_of_decision=True,
    ),
    "cost-spark-in-buckets": Measurement(
        "cost-spark-in-buckets",
        ("lab/cost.py", *SPARK_IN_PYTHON, *SPARK, "millrace/oracle.py", "millrace/rules", "pipelines/fraud"),
        ".venv/bin/python -m lab.choices.spark_in_python buckets --events 200000",
        minutes=8,
        is_of_decision=True,
    ),
    "pace-spark-in-python": Measurement(
        "pace-spark-in-python",
        (
            *BENCH,
            *SPARK_IN_PYTHON,
            "lab/choices/spark_at_pace.py",
            "lab/choices/patterns",
            *SPARK,
            "millrace/oracle.py",
        ),
        ".venv/bin/python -m lab.choices.spark_at_pace",
        minutes=12,
        is_of_decision=True,
    ),
    "kafka-clients": Measurement(
        "kafka-clients",
        ("millrace/machine/jars/kafka", "millrace/servers/kafka.py", "lab/clients.py", "uv.lock"),
        ".venv/bin/millrace up kafka; .venv/bin/python -m lab.clients",
        minutes=2,
        is_of_decision=True,
    ),
    "sender": Measurement(
        "sender",
        (
            "millrace/servers/kafka.py",
            "millrace/traffic",
            "millrace/verbs/sending.py",
            "lab/sender.py",
            "pipelines/fraud",
            "uv.lock",
        ),
        ".venv/bin/python -m lab.sender",
        minutes=2,
    ),
    "replay": Measurement(
        "replay",
        (
            "millrace/servers/kafka.py",
            "millrace/traffic",
            "millrace/verbs/sending.py",
            "lab/sender.py",
            "pipelines/flood",
            "uv.lock",
        ),
        ".venv/bin/python -m lab.sender --lines 2000000",
        minutes=3,
    ),
    "terraform-local": Measurement(
        "terraform-local",
        (
            *SERVERS,
            *JOBS,
            "millrace/deployments.py",
            "millrace/verbs/declare.py",
            "millrace/verbs/deploy.py",
            "millrace/verbs/observe.py",
            "millrace/verbs/observation_server.py",
            "millrace/stores",
            "millrace/verbs/validation.py",
            "terraform/local",
            "terraform/modules",
            "tests/terraform/conftest.py",
            "tests/terraform/test_local_target.py",
        ),
        f".venv/bin/python -m pytest -m drill {TERRAFORM_TEST}",
        minutes=9,
    ),
    "long-runs": Measurement(
        "long-runs", (*VARIANTS, "tests/test_long_runs.py"), f"{VARIANTS_COMMAND} tests/test_long_runs.py", minutes=60
    ),
    "self-test": Measurement(
        "self-test", (*VARIANTS, "tests/test_self_test.py"), f"{VARIANTS_COMMAND} tests/test_self_test.py", minutes=45
    ),
    "watch": Measurement("watch", WATCH, f"{WATCH_COMMAND} killed_under_traffic", minutes=30),
    "stores-away": Measurement(
        "stores-away", WATCH, f"{WATCH_COMMAND} 'stores_that_are_away and stores-away' --away-s 600", minutes=15
    ),
    "hbase-away": Measurement(
        "hbase-away", WATCH, f"{WATCH_COMMAND} 'stores_that_are_away and hbase-away' --away-s 600", minutes=15
    ),
    "runbook": Measurement("runbook", RUNBOOK, RUNBOOK_COMMAND, minutes=20),
    "pages": Measurement(
        "pages",
        (
            *("lab/pages.py", "lab/readers.py"),
            *(*FLINK, *DECLARED, *DEPLOYED, *SENT),
            *("millrace/verbs/validate.py", "millrace/verify/latency.py", "millrace/verify/ledger/chain.py"),
            "millrace/dashboard/*.py",
            "millrace/machine/jars/lock.json",
            "millrace/machine/processes.py",
            *("millrace/servers/dashboard.py", "millrace/servers/hdfs.py", "millrace/servers/kafka.py"),
            "millrace/stores/topics.py",
            "uv.lock",
        ),
        ".venv/bin/python -m lab.pages",
        minutes=70,
    ),
    "endless": Measurement("endless", ENDLESS, ENDLESS_COMMAND, minutes=135),
    "segments": Measurement(
        "segments",
        (
            *("lab/segments.py", "tests/pipelines/pretend.py"),
            *("millrace/oracle.py", "millrace/rules", "millrace/verify", "pipelines/fraud"),
        ),
        ".venv/bin/python -m lab.segments",
        minutes=45,
    ),
    "airflow-drill": Measurement("airflow-drill", DRILL, f"{DRILL_COMMAND} --rounds 6 --seed 21", minutes=14),
    "mutations": Measurement(
        "mutations",
        ("docs/behaviours.md", "lab/mutants.py", "lab/mutations.py"),
        ".venv/bin/python -m lab.mutations",
        minutes=10,
    ),
    "fuzz": Measurement("fuzz", FUZZED, ".venv/bin/python -m tests.fuzz 60", minutes=65),
    "tests": Measurement("tests", EVERYTHING, "make test", minutes=20),
    "tests-new-root": Measurement(
        "tests-new-root", NEW_ROOT, ".ci/run, as a new user with empty caches", minutes=40, is_by_hand=True
    ),
    "tests-five": Measurement("tests-five", LUCK, ".venv/bin/python -m lab.series --busy 2 4 --resume", minutes=115),
    # The last one: it changes the tree, and a record of a changed tree is refused.
    "pictures": Measurement(
        "pictures",
        ("lab/pictures.py", "millrace/charts", "millrace/dashboard"),
        ".venv/bin/python -m lab.pictures",
        minutes=5,
    ),
}
"""By the name of the file in docs/records."""
