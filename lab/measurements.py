"""What each record in docs/records measures, and the command that measures it again: the one table of both."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Measurement:
    """How one file in docs/records is made."""

    kind: str
    """What `infra.records.append` calls it; two files of one kind differ by their command."""
    paths: tuple[str, ...]
    """The git pathspecs that the figures depend on: when a file of them changes, the figures are old."""
    command: str
    """A line of sh, run in the clone; `$SCRATCH` is an empty folder, and the state of the stack is in it."""
    minutes: int
    """About how long that takes on two cores."""
    is_by_hand: bool = False
    """The command needs another machine or a person, who passes the record on by `--take`."""


SERVERS = (
    "infra/archives.py",
    "infra/jars",
    "infra/processes.py",
    "infra/rise.py",
    "infra/servers/flink.py",
    "infra/servers/hbase.py",
    "infra/servers/hdfs.py",
    "infra/servers/kafka.py",
    "infra/servers/server.py",
    "infra/servers/spark.py",
    "infra/services.py",
    "infra/stack.py",
)
JOBS = ("infra/engines", "pipelines/flink", "pipelines/jvm", "pipelines/spark")
EVERYTHING = ("Makefile", "dags", "infra", "lab", "pipelines", "pyproject.toml", "terraform", "tests", "uv.lock")

BENCH = (
    "infra/engines/job.py",
    "infra/jars/lock.json",
    "infra/kernel.py",
    "infra/servers/hbase.py",
    "infra/servers/hdfs.py",
    "infra/servers/kafka.py",
    "infra/traffic.py",
    "lab/bench.py",
    "pipelines/fraud",
    "pipelines/jvm/millrace/kernel",
    "pipelines/patterns",
    "pipelines/rules",
    "pipelines/verify/latency.py",
    "uv.lock",
)
FLINK = (
    "infra/engines/flink.py",
    "infra/servers/flink.py",
    "pipelines/flink",
    "pipelines/jvm/META-INF",
    "pipelines/jvm/millrace/flink",
)
SPARK = ("infra/engines/spark.py", "infra/servers/spark.py", "pipelines/jvm/millrace/spark", "pipelines/spark")

DRILL = (
    "dags",
    "infra/airflow",
    "infra/engines",
    "infra/lifecycle.py",
    "infra/processes.py",
    "infra/servers/airflow.py",
    "lab/airflow_drill.py",
    "lab/airflow_rest.py",
    "uv.lock",
)
DRILL_COMMAND = ".venv/bin/millrace up; .venv/bin/millrace up airflow; .venv/bin/python -m lab.airflow_drill"
WATCH = (
    *SERVERS,
    *JOBS,
    "infra/lifecycle.py",
    "infra/stores",
    "infra/validation.py",
    "infra/watch.py",
    "pipelines/fraud",
    "pipelines/patterns",
    "pipelines/rules",
    "tests/infra/test_watch.py",
)
WATCH_COMMAND = ".venv/bin/python -m pytest -m drill tests/infra/test_watch.py -k"
TERRAFORM_TEST = "tests/terraform/test_local_target.py::test_a_pattern_of_two_engines_and_stores_lives_a_whole_life"

MEASUREMENTS = {
    "setup": Measurement(
        "setup",
        (
            "infra/environments.py",
            "infra/jars",
            "infra/kernel.py",
            "infra/setup.py",
            "pipelines/jvm",
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
    "kafka-clients": Measurement(
        "kafka-clients",
        ("infra/jars/kafka", "infra/servers/kafka.py", "lab/clients.py", "uv.lock"),
        ".venv/bin/millrace up kafka; .venv/bin/python -m lab.clients",
        minutes=2,
    ),
    "terraform-local": Measurement(
        "terraform-local",
        (
            *SERVERS,
            *JOBS,
            "infra/lifecycle.py",
            "infra/observe.py",
            "infra/observer.py",
            "infra/stores",
            "infra/validation.py",
            "terraform/local",
            "terraform/modules",
            "tests/terraform/conftest.py",
            "tests/terraform/test_local_target.py",
        ),
        f".venv/bin/python -m pytest -m drill {TERRAFORM_TEST}",
        minutes=9,
    ),
    "watch": Measurement("watch", WATCH, f"{WATCH_COMMAND} killed_under_traffic", minutes=14),
    "stores-away": Measurement("stores-away", WATCH, f"{WATCH_COMMAND} stores_that_are_away --away-s 600", minutes=15),
    "airflow-drill": Measurement("airflow-drill", DRILL, f"{DRILL_COMMAND} --rounds 8 --seed 1", minutes=18),
    "airflow-drill-in-time": Measurement("airflow-drill", DRILL, f"{DRILL_COMMAND} --rounds 4 --seed 21", minutes=10),
    "mutations": Measurement("mutations", EVERYTHING, ".venv/bin/python -m lab.mutations", minutes=10),
    "tests": Measurement("tests", EVERYTHING, "make test", minutes=20),
    "tests-new-root": Measurement(
        "tests-new-root", (*EVERYTHING, ".ci"), ".ci/run, in a root without the tools", minutes=25, is_by_hand=True
    ),
    "tests-five": Measurement(
        "tests-five", EVERYTHING, "make test, five times, twice beside a busy core", minutes=100, is_by_hand=True
    ),
}
"""By the name of the file in docs/records."""
