"""Airflow is killed while it deploys, again and again: there must never be two jobs, and nothing may be lost.

`python -m lab.airflow_drill --rounds 20 --seed 1` on a stack that `millrace up` and `millrace up airflow` started.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

import psutil

from lab.airflow_rest import AirflowRest, Refused
from millrace import deployments, records, stack
from millrace.errors import InfraError
from millrace.machine import processes
from millrace.settings import Settings
from millrace.target import Target
from millrace.verbs import reconcile as reconciling
from millrace.verbs.teardown import teardown
from millrace.verbs.validate import validate

VICTIMS = ("task", "task and its command", "scheduler", "triggerer", "dag-processor")
DEPLOY_S = 10.0
"""How long an undisturbed deploy takes; the kill falls somewhere in it."""
RUN_WITHIN_S = 1500.0


@dataclass(frozen=True)
class Blow:
    """Who is killed, and when, counted from the start of the deploy task."""

    victim: str
    after_s: float


@dataclass(frozen=True)
class Round:
    """What came of one blow."""

    seed: int
    blow: Blow
    during: str
    """The state of the deploy task when the blow fell."""
    killed: int
    """How many processes were ended."""
    run: str
    tries: int
    """Of the deploy task."""
    jobs: dict[str, int]
    """How many jobs of the pattern each engine ran in the end."""
    extra: int
    verdict: str
    seconds: float

    @property
    def is_well(self) -> bool:
        return set(self.jobs.values()) == {1} and self.extra == 0 and self.verdict == "ok"


def drill(settings: Settings, pattern: str, seed: int) -> Round:
    """Let Airflow deploy a pattern, strike, bring Airflow back, reconcile, and count."""
    began = time.monotonic()
    rng = random.Random(seed)
    blow = Blow(rng.choice(VICTIMS), round(rng.uniform(0, DEPLOY_S), 1))
    rest, target = AirflowRest(settings), Target.read(settings)
    run_id = f"drill-{seed}-{int(time.time())}"
    conf = {"events": 600, "rate_per_s": 100, "seed": seed, "keep": True}
    rest.trigger(f"prove-{pattern}", run_id, conf)
    during, killed = strike(settings, rest, pattern, run_id, blow)
    if blow.victim in ("scheduler", "triggerer", "dag-processor"):
        stack.up(settings, ["airflow"])
    run = rest.await_end(f"prove-{pattern}", run_id, RUN_WITHIN_S)
    healing = f"after-{run_id}"
    rest.trigger("reconcile", healing)
    rest.await_end("reconcile", healing, RUN_WITHIN_S)
    found = deployments.jobs(target, pattern)
    counts = {engine: count(target, pattern, engine) for engine in found}
    validation = validate(target, pattern)
    done = Round(
        seed=seed,
        blow=blow,
        during=during,
        killed=killed,
        run=run,
        tries=int(rest.tasks(f"prove-{pattern}", run_id)["deploy"]["try_number"]),
        jobs=counts,
        extra=len(reconciling.extra(target)),
        verdict=validation.verdict.status,
        seconds=round(time.monotonic() - began, 1),
    )
    teardown(target, pattern)
    return done


def strike(settings: Settings, rest: AirflowRest, pattern: str, run_id: str, blow: Blow) -> tuple[str, int]:
    """Wait for the moment and kill; return the state of the deploy task, and how many processes were killed."""
    deploy = _await_deploy(rest, pattern, run_id)
    time.sleep(blow.after_s)
    killed = 0
    if blow.victim.startswith("task"):
        # A task may have ended before the kill.
        for process in _task(str(deploy["id"])):
            command = process.children(recursive=True) if blow.victim != "task" else []
            for each in (process, *command):
                with suppress(psutil.NoSuchProcess):
                    each.send_signal(signal.SIGKILL)
                    killed += 1
    else:
        record = processes.records(settings.run)[f"airflow-{blow.victim}"]
        processes.kill(record)
        killed = 1
    with suppress(OSError, Refused):
        return str(rest.tasks(f"prove-{pattern}", run_id)["deploy"]["state"]), killed
    return "unknown", killed


def _is_there(rest: AirflowRest, pattern: str) -> bool:
    with suppress(OSError, Refused):
        rest.api("GET", f"/dags/prove-{pattern}")
        return True
    return False


def count(target: Target, pattern: str, engine: str) -> int:
    """How many jobs of the pattern an engine runs."""
    return sum(running.name.startswith(f"{pattern} (") for running in target.engine(engine).running())


def _await_deploy(rest: AirflowRest, pattern: str, run_id: str) -> dict[str, object]:
    deploy: dict[str, object] = {}

    def is_deploying() -> bool:
        nonlocal deploy
        deploy = rest.tasks(f"prove-{pattern}", run_id).get("deploy", {})
        return deploy.get("state") == "running"

    if not processes.wait_until(is_deploying, RUN_WITHIN_S, every_s=0.3):
        raise InfraError(
            f"run {run_id} of prove-{pattern} did not come to deploy within {RUN_WITHIN_S:.0f} s; see {rest.url}"
        )
    return deploy


def _task(ti_id: str) -> list[psutil.Process]:
    """The process of a task instance: it is titled with its id, and so is the worker that watches it."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.cmdline() and " ".join(process.cmdline()).strip() == f"airflow worker -- {ti_id}":
                found.append(process)
    return found


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.airflow_drill", description=__doc__)
    parser.add_argument("--pattern", default="flink-spark")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="of the first round; each next one adds one")
    given = parser.parse_args(argv)
    settings = Settings.read(os.environ)
    if not processes.wait_until(lambda: _is_there(AirflowRest(settings), given.pattern), 120):
        raise InfraError(
            f"Airflow has no DAG prove-{given.pattern} within 120 s; see `millrace logs airflow-dag-processor`"
        )
    rounds: list[Round] = []
    for seed in range(given.seed, given.seed + given.rounds):
        rounds.append(drill(settings, given.pattern, seed))
        print(rounds[-1], flush=True)
    well = sum(each.is_well for each in rounds)
    figures = {"pattern": given.pattern, "well": well, "rounds": [asdict(each) for each in rounds]}
    path = records.append(settings, "airflow-drill", figures, seed=given.seed)
    print(f"{well} of {len(rounds)} rounds ended with one job of each engine and an ok verdict; recorded in {path}")
    return 0 if well == len(rounds) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
