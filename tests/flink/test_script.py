"""Declarations become Flink SQL of the same meaning."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from millrace.engines.flink.expressions import compiled, interval, quoted, text
from millrace.engines.flink.job import script
from millrace.engines.flink.topics import columns_of
from millrace.patterns import EnginePlan, Stores, engine_plans, load
from millrace.rules import Max, RuleError
from millrace.rules.expressions import Call, Expression, Field, Literal, km
from pipelines.fraud import FRAUD


def field(name: str, kind: str = "whole") -> Field:
    return Field("now", name, kind)  # type: ignore[arg-type]


class Here:
    latitude, longitude = field("lat", "real"), field("lon", "real")


@pytest.mark.parametrize(
    ("expression", "sql"),
    [
        (field("a") > field("b"), "(`a` > `b`)"),
        (field("a") == 1, "(`a` = CAST(1 AS BIGINT))"),
        (field("a") != -5, "(`a` <> CAST(-5 AS BIGINT))"),
        (
            field("a") * 3 - 1 >= 7,
            "(compute('-', compute('*', `a`, CAST(3 AS BIGINT)), CAST(1 AS BIGINT)) >= CAST(7 AS BIGINT))",
        ),
        (field("a") + field("r", "real") > 0.0, "(compute('+', CAST(`a` AS DOUBLE), `r`) > CAST('0.0' AS DOUBLE))"),
        (field("r", "real") < 0.1, "(`r` < CAST('0.1' AS DOUBLE))"),
        (field("r", "real") < 1e-7, "(`r` < CAST('1e-07' AS DOUBLE))"),
        (field("t", "text") == "it's", "(`t` = 'it''s')"),
        (field("f", "flag") & Literal(True, "flag"), "(`f` AND TRUE)"),
        (~((field("a") > 1) | (field("a") < 0)), "(NOT ((`a` > CAST(1 AS BIGINT)) OR (`a` < CAST(0 AS BIGINT))))"),
        (km(Here, Here) > 1.0, "(km(`lat`, `lon`, `lat`, `lon`) > CAST('1.0' AS DOUBLE))"),
    ],
)
def test_an_expression_becomes_sql(expression: Expression, sql: str) -> None:
    assert compiled(expression, lambda f: f.name) == sql


def test_a_function_that_flink_lacks_is_refused_by_name() -> None:
    with pytest.raises(RuleError, match=r"moon\(\) has no equivalent in Flink SQL"):
        compiled(Call("moon", (), "real"), lambda f: f.name)


def test_names_texts_and_times_are_quoted() -> None:
    assert (quoted("a`b"), text("it's")) == ("`a``b`", "'it''s'")
    assert (interval(10_000), interval(1), interval(900_000)) == (
        "INTERVAL '10.000' SECOND(2, 3)",
        "INTERVAL '0.001' SECOND(1, 3)",
        "INTERVAL '900.000' SECOND(3, 3)",
    )


def plan(variant: str) -> EnginePlan:
    return engine_plans(load(variant), 1, "kafka:9092", "file:///c", Stores("", "", 0, ""))[0]


def test_the_stage_without_windows_keeps_no_window_and_calls_nothing_late() -> None:
    alone, whole = script(plan("flink-spark")), script(plan("flink"))
    assert {"timed", "timely"} <= whole.views.keys() - alone.views.keys()
    assert "SESSION" not in " ".join(alone.inserts)
    assert "SESSION" in " ".join(whole.inserts)
    assert "TUMBLE" in " ".join(whole.inserts)


def test_windows_get_the_columns_that_they_read_also_what_the_enrichment_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = plan("flink")
    assert not {"km_from_phone", "merchant"} & set(re.findall(r"\w+", script(whole).views["timed"]))
    (summary,) = whole.window_summaries
    far = replace(summary, keys=("source_partition",), measures={"km": Max("km_from_phone")})
    monkeypatch.setattr(EnginePlan, "window_summaries", (far,))
    assert "AS `km_from_phone`" in script(whole).views["timed"]
    assert "CAST(_partition AS BIGINT) AS `source_partition`" in script(whole).views["timed"]


def test_reference_data_is_that_of_the_arrival_and_ids_are_remembered_as_declared() -> None:
    views = script(plan("flink")).views
    assert re.search(
        r"LATERAL TABLE\(look_up\('.*', e\._ingest_ms, e\._stream = 'transactions' AND ", views["looked_up"]
    )
    assert f'"remembered_ms": {FRAUD.judged.remembered_ms}' in views["remembered"]


def test_an_event_of_a_backlog_has_a_header_beside_its_value() -> None:
    found = script(plan("flink-spark"))
    (table,) = (d for d in found.definitions if f"`{FRAUD.enriched.name}`" in d.splitlines()[0])
    assert "`_headers` MAP<STRING, BYTES> METADATA FROM 'headers'\n)" in table, "the last column, and in no value"
    (insert,) = (i for i in found.inserts if i.startswith(f"INSERT INTO `{FRAUD.enriched.name}`"))
    assert "CASE WHEN _backlog THEN MAP[CAST('backlog' AS STRING), CAST(x'01' AS BYTES)] END FROM remembered" in insert


def test_no_step_of_the_stage_only_filters_or_selects() -> None:
    """Flink would copy every column there once more."""
    found = script(plan("flink-spark"))
    assert list(found.views) == ["looked_up", "remembered"]
    assert "TABLE looked_up PARTITION BY" in found.views["remembered"]
    assert all(" FROM remembered WHERE NOT _duplicate" in insert for insert in found.inserts[:2])


def test_the_columns_of_every_topic_are_those_of_its_contract() -> None:
    definitions = {
        d.split("`")[1]: d for d in script(plan("flink")).definitions if d.startswith("CREATE TEMPORARY TABLE")
    }
    assert all(f"`{f.name}` " in definitions[FRAUD.enriched.name] for f in FRAUD.enriched.fields)
    for stream in FRAUD.raw:
        columns = columns_of(FRAUD, stream)
        assert all(f"`{columns[f.name]}` " in definitions["arrivals"] for f in stream.fields)
