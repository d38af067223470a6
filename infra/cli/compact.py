"""millrace compact: many small files become one."""

from infra import compaction
from infra.cli.changes import PatternName
from infra.cli.print import Json, print_json, result_console, settings
from infra.target import Target


def compact(pattern: PatternName, json: Json = False) -> None:
    """Rewrite each hour of a pattern's Parquet as one file, while events are stored and read.

    Examples:  millrace compact flink-spark
    """
    hours = compaction.compact(Target.read(settings()), pattern)
    if json:
        print_json({"verb": "compact", "pattern": pattern, "hours": hours})
        return
    for line in hours or ["nothing to compact"]:
        result_console().print(line, markup=False)
