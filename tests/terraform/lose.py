"""`python lose.py PATTERN` loses a pattern's jobs as accidents do, and one of its topics: for the test of drift."""

import os
import sys

import requests

from millrace import deployments
from millrace.machine import processes
from millrace.settings import Settings
from millrace.stores import topics
from millrace.target import Target


def main(pattern: str) -> None:
    target = Target.read(Settings.read(os.environ))
    deployed = deployments.deployed(target, pattern)
    for engine in deployed:
        if engine == "flink":
            job = f"{target.addresses['FLINK_REST_URL']}/jobs/{deployed[engine].job_id}"
            requests.patch(job, params={"mode": "cancel"}, timeout=30).raise_for_status()
        else:
            record = processes.read(target.settings.run / f"job-{pattern}-{engine}.json")
            assert record is not None
            processes.kill(record)
    topics.remove(target.bootstrap, [f"{pattern}.hop"])
    gone = processes.wait_until(
        lambda: not any(job.is_up for _, job in deployments.jobs(target, pattern).values()), 300
    )
    assert gone, "a job goes on 60 s after it was ended"


if __name__ == "__main__":
    main(sys.argv[1])
