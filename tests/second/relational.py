"""The second oracle: the meaning of the same declarations as SQL over a whole tape at once.

It shares the declarations with the first one, `millrace.oracle`, and that one's refusals of bytes that are no JSON
object or carry a forbidden name; the tests of the kernel compare these with another reader. All else is written
differently: the limits of fields, duplicates, reference data, memory, conditions and windows are relations over all
messages, not steps from one message to the next. It is for tests only, so that no installation needs DuckDB.

A column is called `now.FIELD`, `before.NAME` or `w.NAME`, as conditions name the values; `n` is the place in the tape.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa

from millrace.oracle import Origin, Record, Refusal, accept
from millrace.rules import (
    Count,
    CountDistinct,
    DistinctOthers,
    EventRule,
    EventType,
    Last,
    Max,
    Min,
    Real,
    Rule,
    Session,
    Sum,
    Text,
    Tumbling,
    UseCase,
    Whole,
    WindowRule,
    WindowSummary,
)
from millrace.rules.card_numbers import are_in
from millrace.rules.events import EventField
from millrace.rules.expressions import EARTH_RADIUS_KM, Binary, Call, Expression, Field, Kind, Literal, Not
from millrace.rules.measures import Measure, signature
from millrace.rules.outputs import DUPLICATE, FLAGS, operand_name
from millrace.rules.windows import Window

Row = dict[str, Any]
Statement = str
Begun = Mapping[str, int]
"""By the signature of a measure, the place in the tape of the first message that it holds."""
EVER: Begun = {}

OF_BYTES = ("empty", "oversized", "encoding", "json", "shape", "forbidden")
"""Reasons that SQL does not find."""
SQL = {"text": "VARCHAR", "whole": "BIGINT", "real": "DOUBLE"}
OPERATORS = {"==": "=", "!=": "<>", "&": "AND", "|": "OR"}
EARLIER = "PARTITION BY key ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
PROVENANCE = {
    "source_topic": "topic",
    "source_partition": "partition",
    "source_offset": "n_offset",
    "ingest_ms": "ingest_ms",
}
MACROS = (
    # A number that leaves its kind is null.
    "whole(x) AS CASE WHEN x BETWEEN -9223372036854775808 AND 9223372036854775807 THEN CAST(x AS BIGINT) END",
    "finite(x) AS CASE WHEN isfinite(x) THEN x + 0.0 END",  # -0.0 + 0.0 is 0.0
    # Not least and greatest, which skip a null.
    """limited(x) AS CASE WHEN x < -9223372036854775808 THEN -9223372036854775808
        WHEN x > 9223372036854775807 THEN 9223372036854775807 ELSE x END""",
    "before_it(t, step) AS t - ((t % step) + step) % step",
    "half_chord(a) AS sin(radians(a) / 2) * sin(radians(a) / 2)",
    "chord(a, b, c, d) AS half_chord(c - a) + cos(radians(a)) * cos(radians(c)) * half_chord(d - b)",
    f"""km(a, b, c, d) AS {2 * EARTH_RADIUS_KM!r}
        * asin(sqrt(CASE WHEN chord(a, b, c, d) > 1.0 THEN 1.0 ELSE chord(a, b, c, d) END))""",
)


@dataclass(frozen=True)
class Outcome:
    """What becomes of a tape, in a form that two oracles can be compared in."""

    refused: dict[Origin, str]
    enriched: dict[Origin, Row]
    alerts: dict[str, Row]
    """By alert id."""
    summaries: Mapping[str, Mapping[tuple[Any, ...], Mapping[str, Any]]]


@dataclass(frozen=True)
class Number:
    """A number as it is written."""

    kind: str
    written: str


def outcome(use: UseCase, rules: Sequence[Rule], tape: Sequence[Record], begun: Begun = EVER) -> Outcome:
    """What becomes of a tape of raw and reference messages, in the order of their arrival."""
    with duckdb.connect(config={"threads": 1}) as database:
        for macro in MACROS:
            database.execute(f"CREATE MACRO {macro}")
        refused: dict[Origin, str] = {}
        event_types = (*use.raw, *use.references)
        for event_type in event_types:
            database.register(f"written {event_type.name}", _written(event_type, tape, refused))
        for statement in (*map(read, event_types), known(use), judged(use), enriched(use, begun)):
            database.execute(statement)
        for query in (*map(unreadable, event_types), refusals(use)):
            for row in rows(database, query):
                refused[row["topic"], row["partition"], row["n_offset"]] = row["reason"]
        alerts: dict[str, Row] = {}
        flags: dict[Origin, list[str]] = {}
        for rule in rules:
            if isinstance(rule, EventRule):
                for row in rows(database, alerts_on_events(use, rule, begun)):
                    origin = use.judged.name, row.pop("partition"), row.pop("n_offset")
                    flags.setdefault(origin, []).append(rule.name)
                    alerts[row.pop("alert_id")] = row
            elif isinstance(rule, WindowRule):
                alerts |= {row.pop("alert_id"): row for row in rows(database, alerts_on_windows(rule))}
        summaries = {each.name: _summary(each, rows(database, summary_rows(each))) for each in use.summaries}
        return Outcome(refused, _enriched(use, rows(database, "FROM enriched"), flags), alerts, summaries)


def _enriched(use: UseCase, found: Sequence[Row], flags: Mapping[Origin, list[str]]) -> dict[Origin, Row]:
    events = {}
    for row in found:
        origin = row["topic"], row["partition"], row["n_offset"]
        row[f"now.{FLAGS.name}"] = flags.get(origin, [])
        events[origin] = {name: row[f"now.{name}"] for name in use.enriched.names}
    return events


def _summary(summary: WindowSummary, found: Sequence[Row]) -> dict[tuple[Any, ...], Row]:
    return {
        (row["start_ms"], *(row[f"now.{key}"] for key in summary.keys)): {
            name: row[f"w.{name}"] for name in summary.measures
        }
        for row in found
    }


def rows(database: duckdb.DuckDBPyConnection, query: str) -> list[Row]:
    """The rows of a query, each with the names of its columns."""
    result = database.execute(query)
    names = [each[0] for each in result.description or ()]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def _written(event_type: EventType, tape: Sequence[Record], refused: dict[Origin, str]) -> pa.Table:
    """The messages of one type that are JSON objects, each field as it is written, and deletions of reference data."""
    found: list[Row] = []
    for n, record in enumerate(tape):
        if record.topic != event_type.name:
            continue
        place = {"n": n, "topic": record.topic, "partition": record.partition, "n_offset": record.offset}
        place |= {"ingest_ms": record.ingest_ms}
        if event_type.compacted and record.value is None:
            found.append({**place, "deleted": (record.key or b"").decode(errors="replace")})
            continue
        read = accept(event_type, record.value, record.ingest_ms)
        if isinstance(read, Refusal) and read.reason.partition(":")[0] in OF_BYTES:
            refused[record.origin] = read.reason
            continue
        whole, real = partial(Number, "whole"), partial(Number, "real")
        event = json.loads(record.value or b"", parse_int=whole, parse_float=real)
        for each in event_type.readable:
            kind, written = _as_written(event, each.name)
            own = {"kind": kind, "text": written, "card": are_in(written or "")}
            place |= {f"{owner}.{each.name}": value for owner, value in own.items()}
        found.append(place)
    schema = [(name, pa.int64()) for name in ("n", "partition", "n_offset", "ingest_ms")]
    schema += [("topic", pa.string()), ("deleted", pa.string())]
    for each in event_type.readable:
        schema += [(f"kind.{each.name}", pa.string()), (f"text.{each.name}", pa.string())]
        schema += [(f"card.{each.name}", pa.bool_())]
    return pa.Table.from_pylist(found, pa.schema(schema))


def _as_written(event: Row, name: str) -> tuple[str, str | None]:
    """The kind of JSON value that a field has, and its text."""
    if name not in event:
        return "missing", None
    match event[name]:
        case None:
            return "null", None
        case str(written):
            whole = written.encode(errors="replace").decode()
            return "text" if whole == written else "half", whole  # half of a surrogate pair is no text of SQL
        case Number(kind=kind, written=written):
            return kind, written
    return "other", None


def read(event_type: EventType) -> Statement:
    """The events of a type with the reason why they are refused, and the deletions of reference data."""
    typed = [f"{_typed(each)} AS {column('now', each.name)}" for each in event_type.readable]
    problems = [f"({_problem(each)})" for each in event_type.readable]
    if event_type.time is not None:
        time = column("now", event_type.time)
        problems.append(
            f"CASE WHEN {time} < ingest_ms - {event_type.past_ms} THEN 'past:{event_type.time}' "
            f"WHEN {time} > ingest_ms + {event_type.future_ms} THEN 'future:{event_type.time}' END"
        )
    key = column("now", event_type.key)
    return f"""
        CREATE TABLE "all {event_type.name}" AS
        SELECT *, coalesce(deleted, {key}) AS key,
            CASE WHEN NOT is_deleted THEN coalesce({", ".join(problems)}) END AS reason
        FROM (SELECT *, deleted IS NOT NULL AS is_deleted, {", ".join(typed)} FROM "written {event_type.name}");
        CREATE VIEW "read {event_type.name}" AS
        SELECT * EXCLUDE (reason) FROM "all {event_type.name}" WHERE reason IS NULL"""


def unreadable(event_type: EventType) -> str:
    """The messages of a type that are refused for one of their fields."""
    return f'SELECT topic, partition, n_offset, reason FROM "all {event_type.name}" WHERE reason IS NOT NULL'


def _typed(declared: EventField) -> str:
    written, kind = column("text", declared.name), column("kind", declared.name)
    if isinstance(declared, Text):
        digits = f"WHEN {kind} = 'whole' THEN CASE {written} WHEN '-0' THEN '0' ELSE {written} END"
        return f"CASE WHEN {kind} IN ('text', 'half') THEN {written} {digits if declared.takes_whole else ''} END"
    if isinstance(declared, Whole):
        return f"CASE WHEN {kind} = 'whole' THEN TRY_CAST({written} AS BIGINT) END"
    return f"CASE WHEN {kind} IN ('whole', 'real') THEN TRY_CAST({written} AS DOUBLE) + 0.0 END"


def _problem(declared: EventField) -> str:
    """Why a field is refused, or null."""
    name, kind = declared.name, column("kind", declared.name)
    value = column("now", name)
    kinds = {"text": "('text')", "whole": "('whole')", "real": "('whole', 'real')"}[declared.kind]
    if isinstance(declared, Text):
        kinds = "('text', 'half', 'whole')" if declared.takes_whole else "('text', 'half')"
        fits = f"{kind} <> 'half' AND regexp_full_match({value}, {text(declared.pattern)})"
        beyond = (
            f"CASE WHEN length({value}) > {declared.max_length} THEN 'length:{name}' "
            f"WHEN NOT ({fits}) THEN 'pattern:{name}' END"
        )
    else:
        limits = f"{literal(declared.least, declared.kind)} AND {literal(declared.most, declared.kind)}"
        beyond = f"CASE WHEN {value} BETWEEN {limits} IS NOT TRUE THEN 'range:{name}' END"
    if isinstance(declared, Real):
        masked = beyond
    else:
        card = f"{column('card', name)} AND ({beyond} IS NOT NULL OR {not declared.may_pass_luhn})"
        masked = f"CASE WHEN {card} THEN 'card-number:{name}' ELSE {beyond} END"
    absent = [
        f"WHEN {kind} = '{each}' THEN {text(f'{each}:{name}') if declared.required else 'NULL'}"
        for each in ("missing", "null")
    ]
    return f"CASE {' '.join(absent)} WHEN {kind} NOT IN {kinds} THEN 'type:{name}' ELSE {masked} END"


def known(use: UseCase) -> Statement:
    """Readable events of the judged stream, each with its reference data as it was when the event arrived."""
    chosen, joins, missing = ["e.*"], [], []
    for number, lookup in enumerate(use.enrichment.lookups):
        version, name = f"r{number}", lookup.reference.name
        by = f"{version}.key = e.{column('now', lookup.by)}"
        joins.append(f'ASOF LEFT JOIN "read {name}" {version} ON {by} AND {version}.n < e.n')
        chosen += [f"{version}.{column('now', old)} AS {column('now', new)}" for new, old in lookup.take.items()]
        missing.append(f"WHEN {version}.is_deleted IS NOT FALSE THEN {text('unknown:' + name)}")
    reason = f"CASE {' '.join(missing)} END" if missing else "CAST(NULL AS VARCHAR)"
    source = f'"read {use.judged.name}" e {" ".join(joins)}'
    return f"CREATE TABLE known AS SELECT {', '.join(chosen)}, {reason} AS reason FROM {source}"


def judged(use: UseCase) -> Statement:
    """Of known events with the same key and id the first, and each that comes when the last one is forgotten."""
    own = f"CAST({column('now', use.judged.id)} AS VARCHAR)" if use.judged.id else "concat(partition, '-', n_offset)"
    there = f"SELECT *, {own} AS identity FROM known WHERE reason IS NULL"
    if not use.judged.id:
        return f"CREATE TABLE judged AS {there}"
    is_forgotten = f"b[1][2] - a[-1][2] > {use.judged.remembered_ms}"
    chosen = f"LAMBDA a, b: CASE WHEN {is_forgotten} THEN list_concat(a, b) ELSE a END"
    arrivals = "list([[n, ingest_ms]] ORDER BY n)"
    once = f"SELECT unnest(list_reduce({arrivals}, {chosen}))[1] AS n FROM there GROUP BY key, identity"
    return f"CREATE TABLE judged AS WITH there AS ({there}) SELECT * FROM there SEMI JOIN ({once}) USING (n)"


def refusals(use: UseCase) -> str:
    """Readable events that were not judged, with the reason."""
    return (
        f"SELECT topic, partition, n_offset, coalesce(reason, '{DUPLICATE}') AS reason "
        "FROM known ANTI JOIN judged USING (n)"
    )


def enriched(use: UseCase, begun: Begun) -> Statement:
    """The events of the intermediate topic."""
    added = [f"{compiled(made)} AS {column('now', name)}" for name, made in use.enrichment.built.items()]
    places = [f"{source} AS {column('now', name)}" for name, source in PROVENANCE.items()]
    chosen = ", ".join(["*", *added, *places])
    return f"CREATE TABLE enriched AS SELECT {chosen} FROM ({remembering(use, use.enrichment.remembers, begun)})"


def remembering(use: UseCase, remembers: Mapping[str, Measure], begun: Begun) -> str:
    """Judged events, each with what these measures hold of its key's earlier events."""
    joins = [f"JOIN ({remembered(use, name, measure, begun)}) USING (n)" for name, measure in remembers.items()]
    return f"SELECT * FROM judged {' '.join(joins)}"


def remembered(use: UseCase, name: str, measure: Measure, begun: Begun) -> str:
    """The columns of one measure, by the place of the judged event in the tape."""
    own, time = column("before", name), column("now", use.judged.time or "")
    is_known = f"n >= {begun.get(signature(measure, use.judged), 0)}"
    match measure:
        case Max(field=of) | Min(field=of):
            found = f"{measure.op}({column('now', of)}) FILTER ({is_known}) OVER ({EARLIER})"
            return f"SELECT n, {found} AS {own} FROM judged"
        case Sum(field=of):
            values = (
                f"list({column('now', of)}) FILTER ({column('now', of)} IS NOT NULL AND {is_known}) OVER ({EARLIER})"
            )
            return f"SELECT n, {added_up(values, use.judged.kind(of))} AS {own} FROM judged"
        case Count(within_ms=None):
            return f"SELECT n, count(*) FILTER ({is_known}) OVER ({EARLIER}) AS {own} FROM judged"
        case Last(stream=stream, fields=fields):
            source = "judged" if stream in (None, use.judged) else f'"read {stream.name}"'  # type: ignore[union-attr]
            shown = ", ".join(f"l.{column('now', each)} AS {column('before', f'{name}_{each}')}" for each in fields)
            source = f"(SELECT * FROM {source} WHERE {is_known})"
            return f"SELECT e.n, {shown} FROM judged e ASOF LEFT JOIN {source} l ON l.key = e.key AND l.n < e.n"
        case Count(within_ms=within_ms):
            counted, also = "count(l.n)", ""
        case DistinctOthers(field=of, within_ms=within_ms):
            counted = f"count(DISTINCT l.{column('now', of)})"
            also = f"AND l.{column('now', of)} IS DISTINCT FROM e.{column('now', of)}"
    newest = f"greatest({time}, max({time}) FILTER ({is_known}) OVER ({EARLIER}))"
    return (
        f"SELECT e.n, {counted} AS {own} FROM (SELECT *, {newest} - {within_ms} AS since FROM judged) e "
        f"LEFT JOIN (SELECT * FROM judged WHERE {is_known}) l "
        f"ON l.key = e.key AND l.n < e.n AND l.{time} >= e.since {also} GROUP BY e.n"
    )


def added_up(values: str, kind: Kind) -> str:
    """The sum of a list, from its first value to its last; of whole numbers never beyond the 64 bits."""
    if kind == "whole":
        return f"CAST(list_reduce(CAST({values} AS HUGEINT[]), LAMBDA a, b: limited(a + b)) AS BIGINT)"
    return f"list_reduce({values}, LAMBDA a, b: a + b)"


def alerts_on_events(use: UseCase, rule: EventRule, begun: Begun) -> str:
    """The alerts of a rule on single events."""
    shown = {operand_name(each): f"{column(each.owner, each.name)}" for each in rule.operands}
    return f"""
        SELECT partition, n_offset, {alert_id(rule, "key", "identity")} AS alert_id, {text(rule.name)} AS rule,
            key, key AS subject, [identity] AS event_ids, {operands(shown)} AS operands,
            {column("now", use.judged.time or "")} AS at_ms, NULL AS window_start_ms
        FROM ({remembering(use, rule.remembers, begun)}) WHERE {compiled(rule.condition)}"""


def alerts_on_windows(rule: WindowRule) -> str:
    """The alerts of a rule on windows."""
    key, time = column("now", rule.key), column("now", rule.on.time or "")
    ids = f"list_sort(list({column('now', rule.on.id)}))[1:{rule.ids_most}]" if rule.on.id else "CAST([] AS VARCHAR[])"
    shown = {name: column("w", name) for name in rule.measures} | {"first_ms": "first_ms", "last_ms": "last_ms"}
    return f"""
        SELECT {alert_id(rule, "key", "start_ms")} AS alert_id, {text(rule.name)} AS rule, key, subject, event_ids,
            {operands(shown)} AS operands, last_ms AS at_ms, start_ms AS window_start_ms
        FROM (
            SELECT {key} AS key, start_ms, min({time}) AS first_ms, max({time}) AS last_ms,
                max({column("now", rule.on.key)}) AS subject, {ids} AS event_ids, {", ".join(measured(rule))}
            FROM ({in_windows(rule.window, key, time)}) GROUP BY {key}, start_ms
        ) WHERE {compiled(rule.condition)}"""


def summary_rows(summary: WindowSummary) -> str:
    """The rows of a summary."""
    keys = ", ".join(["start_ms", *(column("now", key) for key in summary.keys)])
    time = column("now", summary.on.time or "")
    return (
        f"SELECT {keys}, {', '.join(measured(summary))} FROM ({in_windows(summary.window, '', time)}) GROUP BY {keys}"
    )


def in_windows(window: Window, key: str, time: str) -> str:
    """Enriched events, each once for every window that it is in, with the start of the window."""
    if isinstance(window, Session):
        return f"""
            SELECT *, min({time}) OVER (PARTITION BY {key}, island) AS start_ms FROM (
                SELECT *, sum(is_first) OVER (PARTITION BY {key} ORDER BY {time}, n) AS island FROM (
                    SELECT *, CAST({time} - lag({time}) OVER (PARTITION BY {key} ORDER BY {time}, n)
                        <= {window.gap_ms} IS NOT TRUE AS BIGINT) AS is_first FROM enriched))"""
    if isinstance(window, Tumbling):
        return f"SELECT *, before_it({time}, {window.size_ms}) AS start_ms FROM enriched"
    return f"""
        SELECT *, before_it({time}, {window.step_ms}) - step * {window.step_ms} AS start_ms
        FROM enriched, range({window.size_ms // window.step_ms}) steps(step)"""


def measured(of: WindowRule | WindowSummary) -> list[str]:
    """The measures of a window as aggregates."""
    return [f"{aggregate(of, name, measure)} AS {column('w', name)}" for name, measure in of.measures.items()]


def aggregate(of: WindowRule | WindowSummary, name: str, measure: Measure) -> str:
    """One measure of a window."""
    match measure:
        case Count():
            return f"count(*) FILTER ({compiled(of.where[name])})" if name in of.where else "count(*)"
        case CountDistinct(field=own):
            return f"count(DISTINCT {column('now', own)})"
        case Last(fields=(own,)):
            arrival = 'ORDER BY "now.ingest_ms", "now.source_partition", "now.source_offset"'
            return f"last({column('now', own)} {arrival}) FILTER ({column('now', own)} IS NOT NULL)"
        case Max(field=own) | Min(field=own):
            return f"{measure.op}({column('now', own)})"
        case Sum(field=own) if of.on.kind(own) == "whole":
            return f"CAST(limited(sum({column('now', own)})) AS BIGINT)"
        case Sum(field=own):
            value, time = column("now", own), column("now", of.on.time or "")
            return added_up(f"list({value} ORDER BY {time}, n) FILTER ({value} IS NOT NULL)", "real")
    raise TypeError(f"{measure} has no meaning in a window")


def compiled(expression: Expression) -> str:
    """A condition, or a computed value, as SQL; rules have SQL's three-valued logic."""
    match expression:
        case Field(owner=owner, name=name):
            return column(owner, name)
        case Literal(kind="flag", value=value):
            return "TRUE" if value else "FALSE"
        case Literal(value=value, kind=kind):
            return literal(value, kind)
        case Not(inner=inner):
            return f"(NOT {compiled(inner)})"
        case Binary(op=op, left=left, right=right, kind="whole"):
            return f"whole({number(left, 'HUGEINT')} {op} {number(right, 'HUGEINT')})"
        case Binary(op=op, left=left, right=right, kind="real"):
            return f"finite({number(left, 'DOUBLE')} {op} {number(right, 'DOUBLE')})"
        case Binary(op=op, left=left, right=right) if {left.kind, right.kind} == {"whole", "real"}:
            return f"({number(left, 'DOUBLE')} {OPERATORS.get(op, op)} {number(right, 'DOUBLE')})"
        case Binary(op=op, left=left, right=right):
            return f"({compiled(left)} {OPERATORS.get(op, op)} {compiled(right)})"
        case Call(function="km", arguments=arguments):
            return f"finite(km({', '.join(number(each, 'DOUBLE') for each in arguments)}))"
    raise TypeError(f"{expression} has no meaning in SQL")


def literal(value: object, kind: Kind) -> str:
    """A constant."""
    return f"CAST({text(str(value))} AS {SQL[kind]})"


def number(expression: Expression, kind: str) -> str:
    """A number as another kind."""
    return f"CAST({compiled(expression)} AS {kind})"


def alert_id(rule: Rule, key: str, fact: str) -> str:
    """The identity of an alert."""
    parts = f"{text(rule.name)}, {text(rule.version)}"
    plain = f"concat_ws('|', {parts}, {key}, {fact})"
    encoded = f"replace(replace({key}, '%', '%25'), '|', '%7C')"
    odd = f"concat_ws('|', '', {parts}, {encoded}, {fact})"
    return f"left(sha256(if(contains({key}, '|'), {odd}, {plain})), 32)"


def operands(shown: Mapping[str, str]) -> str:
    """The values that an alert shows."""
    return "{" + ", ".join(f"{text(name)}: {value}" for name, value in shown.items()) + "}" if shown else "NULL"


def column(owner: str, name: str | None) -> str:
    """The column of a value, by the name that conditions give it."""
    return '"' + f"{owner}.{name}".replace('"', '""') + '"'


def text(value: str) -> str:
    """A text as a literal."""
    return "'" + value.replace("'", "''") + "'"
