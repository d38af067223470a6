"""Dead letters as messages: the place of what is not judged or not counted, with the reason."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from millrace.engines.spark import topics
from millrace.patterns import EnginePlan
from millrace.rules.outputs import DEAD_LETTERS, LETTER_IDENTITY, names, row

EVENTS, WINDOWS = "events", "windows"
"""The stages that refuse a message."""


def dead_letter(plan: EnginePlan, stage: str, value_base64: Column) -> Column:
    """A message for the dead letters, of a row with a reason and the place of the refused message."""
    values = {name: F.col(name) for name in names(LETTER_IDENTITY)}
    values |= {"stage": F.lit(stage), "value_base64": value_base64}
    return topics.message(plan.topics[DEAD_LETTERS.name], F.col(DEAD_LETTERS.key), row(DEAD_LETTERS.names, values))
