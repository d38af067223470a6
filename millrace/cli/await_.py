"""millrace await: wait until the jobs of a pattern are healthy."""

from millrace.cli.changes import PatternName
from millrace.cli.jobs import described
from millrace.cli.printing import Json, print_json, progress, settings


def await_(pattern: PatternName, json: Json = False) -> None:
    """Wait until each job of a pattern runs and has completed a checkpoint.

    It fails after 540 s. Use it after `deploy --no-wait`.

    Examples:
    millrace deploy flink-spark --no-wait && millrace await flink-spark
    """
    from millrace import deployments
    from millrace.target import Target
    from millrace.verbs import deploy as deploying

    target = Target.read(settings())
    deploying.await_healthy(target, pattern, report=progress)
    if json:
        print_json("await", pattern=pattern, jobs=described(deployments.jobs(target, pattern)))
