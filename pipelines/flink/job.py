"""Submits a plan to a Flink session cluster: `python -m pipelines.flink.job --plan JSON --rest URL [--from STATE]`.

Without `--rest` it is the job that Flink itself runs as an application, as its Kubernetes operator does.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment

from pipelines.flink.operators import ensure_stable_ids
from pipelines.flink.script import script
from pipelines.flink.tuning import JOB_SETTINGS
from pipelines.patterns import EnginePlan

# The client's JVM lives for one plan: optimising its code costs more than it gains (9 s of CPU in place of 21).
CLIENT_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def main(argv: Sequence[str]) -> None:
    arguments = _arguments(argv)
    plan = EnginePlan.read(arguments.plan)
    environment = remote(plan, arguments.rest, arguments.state) if arguments.rest else here(plan)
    build(environment, plan)
    client = environment.execute_async(f"{plan.pattern} (generation {plan.generation})")
    print(json.dumps({"job_id": str(client.get_job_id())}))


def build(environment: StreamExecutionEnvironment, plan: EnginePlan) -> dict[str, str]:
    """Put the whole job into an environment as one graph; returns the operators' ids with their names."""
    job = script(plan)
    tables = StreamTableEnvironment.create(environment)
    for definition in job.definitions:
        tables.execute_sql(definition)
    for name, query in job.views.items():
        tables.create_temporary_view(name, tables.sql_query(query))
    inserts = tables.create_statement_set()
    for insert in job.inserts:
        inserts.add_insert_sql(insert)
    inserts.attach_as_datastream()
    return ensure_stable_ids(list(environment._j_stream_execution_environment.getTransformations()))


def remote(plan: EnginePlan, rest: str, state_from: str | None) -> StreamExecutionEnvironment:
    """An environment whose job will run on the session cluster at a REST address, under the plan's job id."""
    address = urlsplit(rest)
    settings = {
        **JOB_SETTINGS,
        "execution.target": "remote",
        "execution.attached": "false",
        "rest.address": address.hostname,
        "rest.port": str(address.port),
        "$internal.pipeline.job-id": plan.job_id,
        "parallelism.default": str(plan.parallelism),
        "execution.checkpointing.dir": plan.checkpoints,
        "execution.checkpointing.savepoint-dir": f"{plan.checkpoints}/savepoints",
        **plan.options,
    }
    if state_from:
        settings["execution.state-recovery.path"] = state_from
    return environment_with(settings)


def here(plan: EnginePlan) -> StreamExecutionEnvironment:
    """The environment of the application that runs this; where its state is, the cluster's configuration says."""
    os.environ.setdefault("JAVA_TOOL_OPTIONS", CLIENT_JVM)
    configuration = Configuration()
    for name, value in {**JOB_SETTINGS, **plan.options}.items():
        configuration.set_string(name, value)
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def environment_with(settings: dict[str, str]) -> StreamExecutionEnvironment:
    """An environment with these settings alone, whatever the client's own configuration says."""
    home = os.environ.get("FLINK_HOME")
    if not home or not any(Path(home, "lib").glob("millrace-kernel*.jar")):
        # PyFlink's client plans with the jars of FLINK_HOME, or else with the wheel's own, which know neither Kafka
        # nor the kernel.
        sys.exit(f"FLINK_HOME={home} holds no kernel in lib/; set it to the Flink home that `millrace up` makes")
    os.environ.setdefault("JAVA_TOOL_OPTIONS", CLIENT_JVM)
    configuration = Configuration()
    for name, value in settings.items():
        configuration.set_string(name, value)
    # Not get_execution_environment(): outside of `flink run` that always makes a local one.
    java = get_gateway().jvm.org.apache.flink.streaming.api.environment.StreamExecutionEnvironment
    return StreamExecutionEnvironment(java(configuration._j_configuration))


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m pipelines.flink.job", description=__doc__)
    parser.add_argument("--plan", required=True, help="the engine's plan as JSON, or @FILE")
    parser.add_argument("--rest", help="the session cluster's REST address, http://host:port")
    parser.add_argument("--from", dest="state", help="a savepoint or retained checkpoint to go on from")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main(sys.argv[1:])
