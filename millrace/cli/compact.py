"""millrace compact: many small files become one."""

from millrace.cli.changes import PatternName
from millrace.cli.printing import Json, print_json, result_console, settings


def compact(pattern: PatternName, json: Json = False) -> None:
    """Rewrite each hour of a pattern's Parquet as one file, while events are stored and read.

    Examples:  millrace compact flink-spark
    """
    from millrace.target import Target
    from millrace.verbs import compaction

    hours = compaction.compact(Target.read(settings()), pattern)
    if json:
        print_json("compact", pattern=pattern, hours=hours)
        return
    for line in hours or ["nothing to compact"]:
        result_console().print(line, markup=False)
