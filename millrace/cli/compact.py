"""millrace compact: merge small files."""

from millrace.cli.changes import PatternName
from millrace.cli.printing import Json, print_json, result_console, settings


def compact(pattern: PatternName, json: Json = False) -> None:
    """Merge the small Parquet files of each hour into one.

    The pattern's jobs and readers of the files may run meanwhile.

    Examples:
    millrace compact flink-spark
    """
    from millrace.target import Target
    from millrace.verbs import compaction

    hours = compaction.compact(Target.read(settings()), pattern)
    if json:
        print_json("compact", pattern=pattern, hours=hours)
        return
    for line in hours or ["nothing to compact"]:
        result_console().print(line, markup=False)
