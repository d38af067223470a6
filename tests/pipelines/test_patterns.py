import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from millrace import project, registry
from millrace.oracle import summary_rows
from millrace.patterns import EnginePlan, PatternError, Stores, engine_plans, load, load_all, names, read
from millrace.patterns.contracts import breaking_changes, contracts_of
from millrace.patterns.generated import generated
from millrace.patterns.model import files
from millrace.rules import (
    LIMITS,
    Count,
    CountDistinct,
    Enrichment,
    EventType,
    FoldRule,
    Last,
    Lookup,
    Max,
    Min,
    Session,
    Sliding,
    Sum,
    Text,
    Tumbling,
    UseCase,
    Whole,
    WindowRule,
    WindowSummary,
    limits_version,
)
from millrace.verbs.provision import wanted_topics
from millrace.yaml_text import read_yaml
from pipelines.flood import FLOOD
from pipelines.fraud import FRAUD

PLACES = EventType("places", "Where each ip is.", (Text("ip"), Text("name")), key="ip")
STORES = Stores("hdfs://store/p", "localhost", 1, "p")


def changed(tmp_path: Path, old: str, new: str) -> Path:
    text = files()["flink-spark"].read_text()
    assert old in text
    path = tmp_path / "changed.yaml"
    path.write_text(text.replace(old, new))
    return path


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("partitions: 2", "partition: 2", r"changed.yaml: partition: no such key; did you mean 'partitions'\?"),
        ("to: [hdfs, hbase]", "too: [hdfs]", r"stages.persist.too: no such key; did you mean 'to'\?"),
        ("partitions: 2", "partitions: many", r"changed.yaml: partitions: .*integer.*'many'"),
        ("partitions: 2", "partitions: 0", "partitions: .*greater than or equal to 1"),
        ("use: fraud\n", "", "changed.yaml: use: this key is required; add it"),
        ("use: fraud\n", "use: frauds\n", "use: there is no use 'frauds'; choose one of: .*fraud"),
        ("[burst]", "[bursts]", r"stages.windows.rules: .*did you mean 'burst'\?"),
        ("[burst]", "[spree]", "'spree' is a rule of the events stage; move it to stages.events.rules"),
        ("[spend-per-minute]", "[spend]", "stages.windows.summaries: .*choose one of: spend-per-minute|did you mean"),
        ("engine: flink,", "engine: samza,", "stages.events.engine: .*'flink', 'spark', 'storm' or 'streams'.*'samza'"),
        (
            "at-least-once-with-ids",
            "exactly-once",
            "promises.delivery: flink does not deliver exactly-once: flink sends alerts at once",
        ),
        (
            "at-least-once-with-ids",
            "at-most-once",
            "promises.delivery: flink does not deliver at-most-once: .*; choose at-least-once-with-ids",
        ),
        ("at-least-once-with-ids", "perhaps", "promises.delivery: .*'at-most-once', but it is 'perhaps'"),
        ("spree, burst-at-once]", "spree], parallelism: 3", "3 instances cannot share 2 partition"),
        (
            "engine: flink, rules: [above-previous-max, away-from-phone,",
            "engine: spark, parallelism: 2, rules: [above-previous-max, away-from-phone,",
            "stages.events.parallelism: spark runs one instance: one query judges the events of all partitions in "
            "batches.*; take it out",
        ),
        (
            "engine: flink, rules: [above-previous-max",
            "engine: flink, real_time: true, rules: [above-previous-max",
            "stages.events.real_time: flink has no such mode: flink writes each event as it comes .*; take it out",
        ),
        (
            "engine: flink, rules: [above-previous-max",
            "engine: spark, real_time: true, rules: [above-previous-max",
            "stages.events.real_time: the stage keeps the ids of 'transactions', to find repetitions; take it out",
        ),
        ("title:", "title: [", "not valid YAML"),
        (
            "title:",
            "doc: Again.\ntitle:",
            "not valid YAML: line 3: the key 'doc' is there already; keep one of the two",
        ),
        ("rules: [burst]", "rules: [burst], rules: []", "the key 'rules' is there already; keep one of the two"),
        (
            "doc: ",
            "more: 2026-13-45\ndoc: ",
            "not valid YAML: line 2: this is no timestamp; write quotes around a text",
        ),
        ("title: ", "more: " + "[" * 2_000, "not valid YAML: too many levels; write fewer brackets or indents"),
        ("  events:", "\tevents:", r"not valid YAML: line \d+: found character .* that cannot .*; write spaces"),
        ("partitions: 2", "partitions: yes", "partitions: Input should be a valid integer, but it is True"),
        ("partitions: 2", 'partitions: "2"', "partitions: Input should be a valid integer, but it is '2'"),
        ("[burst]", "burst", r"stages.windows.rules: write a list in brackets, such as \[a, b\]; it is 'burst'"),
        ("[burst]", "[burst, burst]", "stages.windows.rules: 'burst' is there 2 times; name each rule once"),
        ("[spend-per-minute]", "[spend-per-minute, spend-per-minute]", "stages.windows.summaries: .*more than once"),
        ("to: [hdfs, hbase]", "to: [hdfs, hdfs]", "stages.persist.to: 'hdfs' is there more than once"),
        ("{engine: spark, to: [hdfs, hbase]}", "spark", "stages.persist: there are no keys here; write engine, to"),
    ],
)
def test_an_error_in_a_pattern_file_names_the_file_the_key_and_the_remedy(tmp_path, old, new, complaint):
    with pytest.raises(PatternError, match=complaint):
        read(changed(tmp_path, old, new))


def test_merge_keys_are_read_and_what_stands_beside_them_replaces_theirs(tmp_path):
    """The inner mapping is merged before it is made itself."""
    text = "a: {b: &inner {<<: &base {x: 1, y: 1}, y: 2}}\nc: {<<: *inner, x: 3}\nd: {<<: [*inner, {z: 4}]}\n"
    inner = {"x": 1, "y": 2}
    assert read_yaml(text) == {"a": {"b": inner}, "c": {"x": 3, "y": 2}, "d": {"x": 1, "y": 2, "z": 4}}
    merged = changed(tmp_path, "windows: {engine: spark,", "windows: {<<: &stage {engine: flink}, engine: spark,")
    assert read(merged).pattern == load("flink-spark").pattern


def test_no_field_has_the_name_of_a_folder_of_files(tmp_path, monkeypatch):
    judged = replace(FRAUD.judged, fields=(*FRAUD.judged.fields, Text("Hour", required=False)))
    enrichment = replace(FRAUD.enrichment, on=judged)
    enriched = enrichment.enriched("enriched", "")
    use = SimpleNamespace(enriched=enriched, rule=FRAUD.rule, summary=FRAUD.summary)
    monkeypatch.setattr("millrace.kept.use_of", lambda declared, name: use)
    with pytest.raises(PatternError, match="folders by date and hour, so no field of 'enriched' can be called 'Hour'"):
        read(files()["flink-spark"])
    assert read(changed(tmp_path, "to: [hdfs, hbase]", "to: [hbase]"))


@pytest.mark.parametrize(
    ("enrichment", "complaint"),
    [
        (
            {"lookups": (Lookup(PLACES, by="ip", take={"place": "name"}),)},
            "keeps reference data of 'places'; take it out",
        ),
        ({"remembers": {"before": Count()}}, "keeps measures for 'enriched'; take it out"),
    ],
)
def test_a_stage_that_keeps_anything_without_ids_is_refused_in_real_time(monkeypatch, enrichment, complaint):
    made = replace(FLOOD.enrichment, **enrichment)
    found = replace(FLOOD, enrichment=made, references=tuple(each.reference for each in made.lookups))
    monkeypatch.setattr("millrace.kept.use_of", lambda declared, name: found)
    with pytest.raises(PatternError, match=f"stages.events.real_time: the stage {complaint}"):
        read(files()["flood-spark-realtime"])


def test_a_pattern_file_that_cannot_be_read_is_named(tmp_path):
    not_text, badly_named = tmp_path / "not-text.yaml", tmp_path / "Bad Name.yaml"
    with pytest.raises(PatternError, match=r"its name must be at most 64 lower-case letters"):
        read(tmp_path / f"{'a' * 65}.yaml")
    not_text.write_bytes(b"\xff\xfe")
    with pytest.raises(PatternError, match=r"not-text.yaml: cannot be read"):
        read(not_text)
    with pytest.raises(PatternError, match=r"Bad Name.yaml: its name must be"):
        read(badly_named)


def test_an_empty_pattern_file_is_refused_with_its_keys(tmp_path):
    empty = tmp_path / "empty.yaml"
    empty.touch()
    with pytest.raises(PatternError, match=r"empty.yaml: the file: there are no keys here; write title, doc, use"):
        read(empty)


def fold(state, event, stream):
    return state, None


OF_SHAPES = {
    "fold": FoldRule("fold", "Any.", FRAUD.judged, fold, version="1"),
    **{
        type(window).__name__.lower(): WindowRule(
            name=type(window).__name__.lower(),
            doc="Any.",
            on=FRAUD.enriched,
            key="customer",
            window=window,
            measures={"n": Count()},
            alert_when=lambda w: w.n > 1,
        )
        for window in (Session(1_000), Tumbling(1_000), Sliding(2_000, 1_000))
    },
}
REMEDY = r"; (choose|declare|take) |Input should be '"
"""How a refusal ends: by what to write instead, or by what may be written."""


def asking(engine: str, shape: str) -> dict[str, object]:
    """The content of a pattern file that wants a shape of an engine, and else what that engine can."""
    stages, delivery = {"events": {"engine": engine}}, "at-least-once-with-ids"
    match shape:
        case "fold":
            stages["events"]["rules"] = [shape]
        case "parallel":
            stages["events"]["parallelism"] = 2
        case "real-time":
            stages["events"]["real_time"] = True
        case "session" | "tumbling" | "sliding":
            stages["windows"] = {"engine": engine, "rules": [shape]}
        case "summary":
            stages["windows"] = {"engine": engine, "summaries": [FRAUD.summaries[0].name]}
        case "persist:hdfs" | "persist:hbase":
            stages["persist"] = {"engine": engine, "to": [shape.removeprefix(registry.PERSIST)]}
        case "windows-elsewhere":
            others = [name for name in registry.able_to(["session"]) if name != engine]
            stages["windows"] = {"engine": others[0]}
        case "events-elsewhere":
            others = [name for name in registry.able_to(["windows-elsewhere"]) if name != engine]
            stages = {"events": {"engine": others[0]}, "windows": {"engine": engine}}
        case _:
            delivery = shape
    promises = {"delivery": delivery, "alert_latency_ms_p99": 500}
    return {"title": "Any", "doc": "Any.", "use": "fraud", "partitions": 2, "stages": stages, "promises": promises}


@pytest.mark.parametrize(
    ("engine", "shape"), [(each.name, shape) for each in registry.manifests() for shape in each.cannot], ids=str
)
def test_what_an_engine_cannot_is_refused_with_the_reason_and_the_remedy(monkeypatch, tmp_path, engine, shape):
    found = replace(FRAUD, rules=(*FRAUD.rules, *OF_SHAPES.values()))
    monkeypatch.setattr("millrace.kept.use_of", lambda declared, name: found)
    path = tmp_path / "asking.yaml"
    path.write_text(json.dumps(asking(engine, shape)))
    with pytest.raises(PatternError, match=REMEDY) as refused:
        read(path)
    reason = registry.manifest(engine).cannot[shape]
    if shape != "windows-elsewhere":  # the other engine's reason comes first
        assert reason in str(refused.value) or "Input should be" in str(refused.value)


def test_a_windows_stage_without_rules_is_refused_on_an_engine_that_has_no_windows(tmp_path):
    path = tmp_path / "empty.yaml"
    for stage in ("{engine: storm}", "{engine: storm, rules: []}"):
        path.write_text(files()["storm"].read_text().replace("promises:", f"  windows: {stage}\npromises:"))
        with pytest.raises(
            PatternError, match=r"stages.windows.engine: storm has no windows: .*; choose another engine"
        ):
            read(path)
    path.write_text(files()["storm-spark"].read_text())
    assert read(path).pattern.stages.windows


def test_flink_windows_behind_a_spark_events_stage_are_refused(tmp_path):
    path = tmp_path / "mixed.yaml"
    path.write_text(files()["spark"].read_text().replace("windows: {engine: spark", "windows: {engine: flink"))
    with pytest.raises(PatternError, match="choose spark here too"):
        read(path)


def test_an_unknown_pattern_is_answered_with_the_nearest_one():
    with pytest.raises(PatternError, match="did you mean 'flink-spark'"):
        load("flink-sparc")


def test_all_variants_of_this_repository_load_and_run_every_rule_of_their_use():
    """Where there is no windows stage, every per-event rule."""
    own = [variant for variant in load_all() if variant.use.name in ("flood", "fraud")]
    assert {"flink", "flink-spark", "spark", "flood-flink"} <= {variant.name for variant in own}
    for variant in own:
        has_windows = variant.pattern.stages.windows is not None
        wanted = {rule.name for rule in variant.use.rules if has_windows or not isinstance(rule, WindowRule)}
        assert {r.name for r in (*variant.event_rules, *variant.window_rules)} == wanted


def test_a_slow_topic_too_keeps_its_messages_for_hardly_longer_than_declared():
    of_time = [each.configs for v in load_all() for each in wanted_topics(v) if each.name == v.topic("alerts")]
    assert len(of_time) == len(names())
    assert all(int(each["segment.ms"]) <= 0.05 * int(each["retention.ms"]) for each in of_time)


def test_a_plan_survives_its_way_through_json():
    for variant in load_all():
        for plan in engine_plans(variant, 3, "broker:1", "hdfs://store/checkpoints", STORES):
            assert EnginePlan.from_json(plan.to_json()) == plan


def test_the_same_pattern_and_generation_give_the_same_job_and_another_generation_another():
    first, again, next_one = (engine_plans(load("flink"), n, "b", "c", STORES)[0].job_id for n in (1, 1, 2))
    assert first == again != next_one


@pytest.mark.parametrize(
    "changed",
    [
        {"disorder_ms": FRAUD.disorder_ms + 1},
        {"references": [replace(FRAUD.references[0], max_bytes=100), *FRAUD.references[1:]]},
        {"raw": [replace(each, past_ms=1) for each in FRAUD.raw]},
    ],
    ids=["disorder", "reference data", "time"],
)
def test_other_limits_make_another_plan_though_no_rule_has_changed(changed):
    parts = {name: getattr(FRAUD, name) for name in ("raw", "references", "judged", "disorder_ms")}
    assert limits_version(SimpleNamespace(**parts)) == limits_version(FRAUD)
    version = limits_version(SimpleNamespace(**{**parts, **changed}))
    assert version != limits_version(FRAUD)
    plan, *_ = engine_plans(load("flink"), 1, "b", "c", STORES)
    other = {**plan.versions, LIMITS: version}
    assert plan.versions[LIMITS] == limits_version(FRAUD)
    assert not plan.is_same_as(replace(plan, generation=2, versions=other))


REFRESH = "stale: run python -m millrace.patterns"


@pytest.mark.parametrize("path", generated(), ids=lambda path: path.stem)
def test_a_generated_file_is_fresh_to_the_byte(path):
    assert path.read_text() == generated()[path], f"{path.name} is {REFRESH}"


def test_no_contract_is_left_of_a_topic_that_is_gone():
    kept = {path for use in project.uses() for path in project.use_folder(use).glob("contracts/*.json")}
    assert kept == {path for path in generated() if path.parent.name == "contracts"}


OLD = {
    "properties": {
        "a": {"type": "integer", "minimum": 0, "maximum": 9},
        "b": {"type": ["string", "null"], "maxLength": 8},
    },
    "required": ["a"],
}


@pytest.mark.parametrize(
    ("properties", "required", "complaints"),
    [
        ({}, ["a"], []),
        ({"c": {"type": ["string", "null"]}}, ["a"], []),
        ({"a": {"type": "integer", "minimum": 0, "maximum": 10}}, ["a"], []),
        ({"c": {"type": "string"}}, ["a", "c"], ["'c' is new and required; make it optional"]),
        ({"a": None}, [], ["'a' is gone; keep it, or write to a new topic"]),
        ({"a": {"type": "string"}}, ["a"], ["'a' changed its type from integer to string"]),
        (
            {"a": {"type": "integer", "minimum": 0, "maximum": 5}},
            ["a"],
            ["'a' has a tighter maximum: 5 in place of 9; old messages may break it"],
        ),
        ({}, ["a", "b"], ["'b' was optional and is required now; old messages may lack it"]),
        ({}, [], ["'a' was required and is optional now; old readers count on it"]),
    ],
)
def test_a_breaking_change_of_a_contract_is_distinguished_from_a_compatible_one(properties, required, complaints):
    merged = {name: schema for name, schema in {**OLD["properties"], **properties}.items() if schema is not None}
    assert breaking_changes(OLD, {"properties": merged, "required": required}) == complaints


def test_a_version_of_a_contract_does_not_go_back():
    assert breaking_changes({**OLD, "version": 2}, OLD) == ["the version goes back from 2 to 1; give it 3"]
    assert breaking_changes(OLD, {**OLD, "version": 2}) == []


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("red|green|blue", ["red", "green", "blue"], ["redxyz", "xgreen", "xyzblue"]),
        ("(?:red|green)x", ["redx", "greenx"], ["red", "redxx"]),
        (r"[a|]\||\(|b", ["a|", "||", "(", "b"], ["|", "a|b", "(b"]),
        ("((a|b)|c)|d", ["a", "c", "d"], ["cd", "ad"]),
    ],
)
def test_a_contract_takes_the_texts_that_its_field_takes_and_no_other(pattern, good, bad):
    schema = Text("color", pattern).schema()
    assert [text for text in (*good, *bad) if re.search(schema["pattern"], text)] == good
    assert [text for text in (*good, *bad) if re.fullmatch(pattern, text)] == good


@pytest.mark.parametrize("pattern", ["[a-z]+", "(red|green)x?", "((a|b)|c)", r"[a|\]|]", r"a\|b\("])
def test_a_pattern_whose_alternatives_are_inside_stands_in_its_contract_as_it_is(pattern):
    assert Text("color", pattern).schema()["pattern"] == f"^{pattern}$"


def test_a_contract_that_lacked_the_group_around_alternatives_is_not_broken_by_it():
    patterns = ("^red|green$", "^(?:red|green)$", "^(?:red|blue)$")
    old, same, other = ({"properties": {"color": {"type": "string", "pattern": each}}} for each in patterns)
    assert breaking_changes(old, same) == []
    assert breaking_changes(old, other) == ["'color' changed its pattern from ^red|green$ to ^(?:red|blue)$"]


def test_a_summary_that_loses_a_number_breaks_the_contract_of_the_windows_topic():
    old = contracts_of(FRAUD)["windows"]
    summary = old["oneOf"][0]
    new = {"oneOf": [{**summary, "properties": {k: v for k, v in summary["properties"].items() if k != "purchases"}}]}
    assert breaking_changes(old, new) == ["spend-per-minute: 'purchases' is gone; keep it, or write to a new topic"]


VISITS = EventType(
    "visits",
    "Visits.",
    (Text("who"), Text("from", required=False), Whole("paid"), Whole("tip", required=False), Whole("at_ms")),
    key="who",
    time="at_ms",
    past_ms=1_000,
)
ENRICHMENT_OF_VISITS = Enrichment(VISITS)
ENRICHED_VISITS = ENRICHMENT_OF_VISITS.enriched("enriched", "Visits.")
VISITING = UseCase("visiting", VISITS, ENRICHMENT_OF_VISITS, ENRICHED_VISITS)


def test_the_contract_of_windows_admits_no_row_where_a_use_has_no_summary():
    none = contracts_of(VISITING)["windows"]
    assert ("oneOf" in none, none["not"]) == (False, {})
    some = contracts_of(FRAUD)["windows"]
    assert breaking_changes({**none, "oneOf": []}, none) == breaking_changes(none, some) == []
    assert breaking_changes(some, none) == ["'spend-per-minute' is gone; keep it, or write to a new topic"]


def test_a_column_of_a_summary_is_nullable_in_its_contract_where_a_row_can_have_null():
    kinds = (Max, Min, Sum, Last, CountDistinct)
    measures = {f"{kind.op}_{name}": kind(name) for name in ("paid", "tip") for kind in kinds} | {"n": Count()}
    summary = WindowSummary("tips", "", ENRICHED_VISITS, ("who", "from"), Tumbling(9), measures)
    (schema,) = contracts_of(replace(VISITING, summaries=(summary,)))["windows"]["oneOf"]
    visit = dict.fromkeys(ENRICHED_VISITS.names) | {"who": "w", "paid": 1, "at_ms": 5}
    arrival = {"ingest_ms": 5, "source_partition": 0, "source_offset": 0}
    (((_, who, source), measured),) = summary_rows(summary, [visit | arrival]).items()
    row = {"who": who, "from": source, **measured}
    types = {name: schema["properties"][name]["type"] for name in row}
    assert {name for name in row if "null" in types[name]} == {name for name in row if row[name] is None}
    assert (types["from"], types["sum_tip"]) == (["string", "null"], ["integer", "null"])
    assert schema["required"] == list(summary.columns)


def test_a_contract_of_a_summary_that_declared_no_null_is_not_broken_by_one():
    was, may_be_null = {"type": "integer"}, {"type": ["integer", "null"]}
    old, new = ({"oneOf": [{"title": "tips", "properties": {"tip": each}}]} for each in (was, may_be_null))
    assert breaking_changes(old, new) == []
    assert breaking_changes(new, old) == ["tips: 'tip' changed its type from ['integer', 'null'] to integer"]


def test_the_contract_of_alerts_is_as_wide_as_the_keys_of_the_use():
    fields = (Text("who", pattern=".+", max_length=200), Whole("at_ms"))
    visits = EventType("visits", "Visits.", fields, "who", time="at_ms", past_ms=1_000)
    enrichment = Enrichment(on=visits, lookups=(), remembers={}, adds={})
    use = UseCase("visiting", visits, enrichment, enrichment.enriched("enriched", "Visits."))
    schema = contracts_of(use)["alerts"]["properties"]
    for name in ("key", "subject"):
        assert re.search(schema[name]["pattern"], "t1 lost#42")
        assert schema[name]["maxLength"] == 200
    assert contracts_of(FRAUD)["alerts"]["properties"]["key"] == Text("key").schema(), "tokens are plain names"


def test_a_folder_of_patterns_that_is_none_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("MILLRACE_PATTERNS", str(tmp_path / "gone"))
    with pytest.raises(PatternError, match=r"MILLRACE_PATTERNS=.*gone is not a folder; name the one"):
        names()
