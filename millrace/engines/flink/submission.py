"""How a job reaches Flink: through a warm gateway, through a new JVM, or inside the application that runs this."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from millrace.engines.flink import gateway
from millrace.engines.flink.tuning import FINITE_SETTINGS, JOB_SETTINGS
from millrace.patterns import EnginePlan

# The client's JVM lives for one plan: optimising its code costs more than it gains (9 s of CPU in place of 21).
CLIENT_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def settings_of(plan: EnginePlan) -> dict[str, str]:
    """The settings of a job, wherever it runs."""
    return {**JOB_SETTINGS, **(FINITE_SETTINGS if plan.finite else {}), **plan.options}


def remote(plan: EnginePlan, rest: str, state_from: str | None) -> dict[str, str]:
    """The settings of a job that runs on the session cluster at a REST address, under the plan's job id."""
    address = urlsplit(rest)
    settings = {
        **settings_of(plan),
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
        # The first checkpoint holds all: none needs a file of that state, which is deleted then.
        settings["execution.state-recovery.claim-mode"] = "NO_CLAIM"
    return settings


def submit(job: dict[str, Any], socket: Path | None) -> None:
    """Submit the job through the gateway; through a new JVM if the gateway does not answer or none is given."""
    home = os.environ.get("FLINK_HOME")
    library = Path(home, "lib") if home else None
    if not library or not any(library.glob("millrace-kernel*.jar")):
        # A job is planned with the jars of FLINK_HOME, or else with the wheel's own, which lack Kafka and the kernel.
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
    _, errors = java.communicate(json.dumps(job).encode())
    if java.returncode != 0:
        sys.exit(errors.decode(errors="replace"))


def run(job: dict[str, Any], settings: Mapping[str, str]) -> None:
    """Run the job in the application that runs this; the cluster's configuration names the place of its state."""
    from pyflink.common import Configuration
    from pyflink.datastream import StreamExecutionEnvironment
    from pyflink.java_gateway import get_gateway

    configuration = Configuration()
    for name, value in settings.items():
        configuration.set_string(name, value)
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    java = get_gateway().jvm.millrace.flink.submission.Submission(json.dumps(job))
    java.build(environment._j_stream_execution_environment)
    client = environment.execute_async(job["name"])
    print(json.dumps({"job_id": str(client.get_job_id())}))
