"""millrace await: wait until the jobs of a pattern are healthy."""

from infra.cli.changes import PatternName
from infra.cli.jobs import described
from infra.cli.printing import Json, print_json, progress_console, settings


def await_(pattern: PatternName, json: Json = False) -> None:
    """Wait until each job of a pattern runs and has completed a checkpoint: what `deploy --no-wait` left to do.

    Examples:  millrace deploy flink-spark --no-wait && millrace await flink-spark
    """
    from infra import lifecycle
    from infra.target import Target

    console, target = progress_console(), Target.read(settings())
    lifecycle.await_healthy(target, pattern, report=lambda line: console.print(line, markup=False))
    if json:
        print_json("await", pattern=pattern, jobs=described(lifecycle.jobs(target, pattern)))
