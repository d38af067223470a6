"""`python -m millrace.engines.flink.job --plan JSON --rest URL [--from STATE]`: submits a plan to a session cluster.

With `--gateway SOCKET` a warm gateway plans and submits it, else a new JVM. Without `--rest` it is the job that Flink
itself runs as an application, as its Kubernetes operator does.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from millrace.engines.flink import gateway
from millrace.engines.flink.script import script
from millrace.engines.flink.tuning import JOB_SETTINGS
from millrace.patterns import EnginePlan

# The client's JVM lives for one plan: optimising its code costs more than it gains (9 s of CPU in place of 21).
CLIENT_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def main(argv: Sequence[str]) -> None:
    arguments = _arguments(argv)
    plan = EnginePlan.read(arguments.plan)
    if arguments.rest:
        submit(submission(plan, remote(plan, arguments.rest, arguments.state)), arguments.gateway)
    else:
        run(plan)


def submission(plan: EnginePlan, settings: dict[str, str]) -> dict[str, Any]:
    """The whole job as millrace.flink.submission.Submission reads it."""
    job = script(plan)
    return {
        "name": f"{plan.pattern} (generation {plan.generation})",
        "settings": settings,
        "definitions": job.definitions,
        "views": list(job.views.items()),
        "inserts": job.inserts,
    }


def remote(plan: EnginePlan, rest: str, state_from: str | None) -> dict[str, str]:
    """The settings of a job that runs on the session cluster at a REST address, under the plan's job id."""
    address = urlsplit(rest)
    settings = {
        **JOB_SETTINGS,
        "execution.target": "remote",
        "execution.attached": "false",
        "rest.address": address.hostname or "",
        "rest.port": str(address.port),
        "$internal.pipeline.job-id": plan.job_id,
        "parallelism.default": str(plan.parallelism),
        "execution.checkpointing.dir": plan.checkpoints,
        "execution.checkpointing.savepoint-dir": f"{plan.checkpoints}/savepoints",
        **plan.options,
    }
    if state_from:
        settings["execution.state-recovery.path"] = state_from
    return settings


def submit(job: dict[str, Any], socket: Path | None) -> None:
    """Submit the job by the gateway; without one that answers, by a JVM that is started for it."""
    home = os.environ.get("FLINK_HOME")
    library = Path(home, "lib") if home else None
    if not library or not any(library.glob("millrace-kernel*.jar")):
        # A job is planned with the jars of FLINK_HOME, or else with the wheel's own, which know neither Kafka nor the
        # kernel.
        sys.exit(f"FLINK_HOME={home} holds no kernel in lib/; set it to the Flink home that `millrace up` makes")
    if socket:
        try:
            print(f"submitted by the gateway: {gateway.submit(socket, job, library)}")
            return
        except gateway.GatewayError as error:
            print(f"the gateway at {socket} {error}; a JVM is started instead", flush=True)
        except gateway.SubmissionError as error:
            sys.exit(str(error))
    _submit_cold(job)


def _submit_cold(job: dict[str, Any]) -> None:
    from pyflink.pyflink_gateway_server import launch_gateway_server_process

    os.environ.setdefault("JVM_ARGS", CLIENT_JVM)
    # PyFlink's way to a JVM with Flink's class path and options, with another class to run.
    java = launch_gateway_server_process(os.environ.copy(), ["-c", "millrace.flink.submission.Submit", "local"])
    _, complaint = java.communicate(json.dumps(job).encode())
    if java.returncode != 0:
        sys.exit(complaint.decode(errors="replace"))


def run(plan: EnginePlan) -> None:
    """Run the job in the application that runs this; where its state is, the cluster's configuration says."""
    from pyflink.common import Configuration
    from pyflink.datastream import StreamExecutionEnvironment
    from pyflink.java_gateway import get_gateway

    configuration = Configuration()
    for name, value in {**JOB_SETTINGS, **plan.options}.items():
        configuration.set_string(name, value)
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    job = submission(plan, {})
    text = json.dumps(job)
    get_gateway().jvm.millrace.flink.submission.Submission(text).build(environment._j_stream_execution_environment)
    client = environment.execute_async(job["name"])
    print(json.dumps({"job_id": str(client.get_job_id())}))


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m millrace.engines.flink.job", description=__doc__)
    parser.add_argument("--plan", required=True, help="the engine's plan as JSON, or @FILE")
    parser.add_argument("--rest", help="the session cluster's REST address, http://host:port")
    parser.add_argument("--from", dest="state", help="a savepoint or retained checkpoint to go on from")
    parser.add_argument("--gateway", type=Path, help="the socket of a warm gateway beside the cluster")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main(sys.argv[1:])
