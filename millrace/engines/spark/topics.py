"""Kafka topics as data frames."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from millrace.engines.spark.tuning import FETCH_WAIT_MS, TASKS
from millrace.patterns import EnginePlan
from millrace.rules import EventType, Lookup, Real, Text, Whole, Words
from millrace.rules.outputs import BACKLOG_HEADER, PROVENANCE, SOURCE, names

TYPES: Mapping[str, T.DataType] = {
    "text": T.StringType(),
    "whole": T.LongType(),
    "real": T.DoubleType(),
    "flag": T.BooleanType(),
}
WRITABLE = "struct<topic:string,key:string,value:string>"

TIME_MOST_MS = 9_000_000_000_000_000
"""Spark counts microseconds in 64 bits."""

PLACE = names(SOURCE[1:])
"""The columns with the partition and the offset of the raw message."""


def source(
    spark: SparkSession,
    bootstrap: str,
    topics: Sequence[str],
    rows_most: int | None = None,
    *,
    headers: bool = False,
    is_real_time: bool = False,
) -> DataFrame:
    """All messages of topics from their beginning, with the place and the append time that Kafka gave them.

    With `headers`, also whether each belongs to the backlog of another engine's job. In real time each partition has a
    task of its own, which waits for its messages.
    """
    reader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", ",".join(topics))
        .option("groupIdPrefix", _group(topics[0]))
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "true")
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.fetch.max.wait.ms", str(FETCH_WAIT_MS))
    )
    if rows_most:
        reader = reader.option("maxOffsetsPerTrigger", str(rows_most))
    if headers:
        reader = reader.option("includeHeaders", "true")
    messages = reader.load()
    return _placed(messages if is_real_time else messages.coalesce(TASKS), headers=headers)


def read(spark: SparkSession, event_type: EventType, value: Column, ingest_ms: Column) -> Column:
    """A struct of `reason` and the event's fields, read and checked by the kernel."""
    declared = [T.StructField("reason", T.StringType())]
    declared += [T.StructField(f.name, TYPES[f.kind]) for f in event_type.readable]
    jvm = spark._jvm.millrace.spark
    java_type = spark._jsparkSession.parseDataType(T.StructType(declared).json())
    return Column(jvm.ReadEvent.of(json.dumps(event_type.reader()), java_type, value._jc, ingest_ms._jc))


def looked_up(spark: SparkSession, plan: EnginePlan, lookup: Lookup, key: Column, at_ms: Column) -> Column:
    """A struct of the fields that a lookup takes from what the key had at that moment; null if it had nothing."""
    kinds = {each.name: TYPES[each.kind] for each in lookup.reference.readable}
    taken = T.StructType([T.StructField(name, kinds[field]) for name, field in lookup.take.items()])
    java_type = spark._jsparkSession.parseDataType(taken.json())
    return Column(spark._jvm.millrace.spark.LookUp.of(plan.reference(lookup), java_type, key._jc, at_ms._jc))


def kept(spark: SparkSession, event_type: EventType, value: Column, reason: Column) -> Column:
    """The part of a message that a dead letter may keep, by the reason of the refusal; without one, the message."""
    return Column(spark._jvm.millrace.spark.Kept.of(json.dumps(event_type.reader()), value._jc, reason._jc))


def masked(spark: SparkSession, value: Column) -> Column:
    """The bytes without card numbers."""
    return Column(spark._jvm.millrace.spark.Kept.masked(value._jc))


def parsed(event_type: EventType, value: Column, only: Collection[str] | None = None) -> Column:
    """A struct of the fields of an event that the pipeline wrote itself, or of some; invalid JSON gives nulls."""
    return F.from_json(value.cast("string"), parsed_type(event_type, only))


def parsed_type(event_type: EventType, only: Collection[str] | None = None) -> T.StructType:
    """The fields of an event, or some of them, as columns."""
    kinds = {f.name: _type(f) for f in event_type.fields if only is None or f.name in only}
    return T.StructType([T.StructField(name, kind) for name, kind in kinds.items() if kind is not None])


def is_whole(event_type: EventType, event: str) -> Column:
    """Whether the struct of that name is an event: garbage lacks its key, id, time or place, or has no such time."""
    fields = {field.name for field in event_type.fields}
    own = [name for name in (event_type.key, event_type.id, event_type.time) if name]
    own += [name for name in names(PROVENANCE) if name in fields]
    needed = [F.col(f"{event}.{name}").isNotNull() for name in own]
    at_ms = [F.abs(f"{event}.{event_type.time}") < TIME_MOST_MS] if event_type.time else []
    return reduce(Column.__and__, [*needed, *at_ms])


def identity_of(on: EventType, event: str) -> Column:
    """What an event of the intermediate topic is known by: its id, or else the place of its raw message."""
    return F.col(f"{event}.{on.id}") if on.id else F.concat_ws("-", *(f"{event}.{name}" for name in PLACE))


def message(topic: str, key: Column, values: Mapping[str, Column]) -> Column:
    """A message for a Kafka sink: the values as a JSON object, nulls included."""
    content = F.to_json(F.struct(*(value.alias(name) for name, value in values.items())), {"ignoreNullFields": "false"})
    return F.struct(F.lit(topic).alias("topic"), key.cast("string").alias("key"), content.alias("value"))


def sink_options(bootstrap: str) -> Mapping[str, str]:
    """The options of a Kafka sink: all replicas acknowledge a message before its batch is done."""
    return {"kafka.bootstrap.servers": bootstrap, "kafka.acks": "all"}


def now_ms() -> Column:
    """The wall clock when a row is made; Spark's current_timestamp() is the start of the batch."""
    return F.expr("cast(reflect('java.lang.System', 'currentTimeMillis') as bigint)")


def _placed(messages: DataFrame, *, headers: bool) -> DataFrame:
    named = F.exists("headers", lambda header: header["key"] == BACKLOG_HEADER)
    added = [F.coalesce(named, F.lit(False)).alias("is_backlog")] if headers else []
    return messages.select(
        *("topic", "partition", "offset", "key", "value"), F.unix_millis("timestamp").alias("ingest_ms"), *added
    )


def _type(field: object) -> T.DataType | None:
    match field:
        case Text() | Whole() | Real():
            return TYPES[field.kind]
        case Words():
            return T.ArrayType(T.StringType())
    return None


def _group(topic: str) -> str:
    """The prefix of Spark's consumer groups: the pattern of the topic."""
    return f"{topic.partition('.')[0]}.spark"
