"""Invented uses and tapes: plain texts and numbers, so that a counterexample is a line that can be pasted.

Every use has the same streams: `events`, which are judged, `others`, and `labels`, which are reference data. What the
fields allow, the measures, conditions and windows differ. Values, times and ids gather where something is decided.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hypothesis import strategies as st

from millrace.oracle import Record
from millrace.rules import UseCase

START_MS = 1_790_000_000_000
LIMITS = {"narrow": (-9, 9), "wide": (-(2**63), 2**63 - 1)}
PARTITIONS = {"a": 0, "b": 1, "c": 1, "7": 1, "a|i1": 0, "a%7Ci1": 0}
ANY = r"[\s\S]*"
"""The pattern of a text that may hold the separator of alert ids, among all else."""

Named = tuple[tuple[str, str], ...]
"""Names and the texts of what they stand for."""


@dataclass(frozen=True)
class Invented:
    """A use as texts of Python: each measure, window and condition."""

    limits: str = "narrow"
    """Of numbers."""
    has_ids: bool = True
    looks_up: bool = False
    remembers: Named = ()
    """Of every rule on events, and of the enrichment."""
    alert_when: tuple[str, ...] = ()
    adds: Named = ()
    windows: tuple[tuple[str, str, Named, str], ...] = ()
    """Key, window, measures and condition of each rule on windows."""
    summaries: tuple[tuple[tuple[str, ...], str, Named], ...] = ()
    """Keys, window and measures."""

    @property
    def use(self) -> UseCase:
        return _use(self)

    @property
    def names(self) -> tuple[str, ...]:
        """Of its rules and summaries."""
        return tuple(each.name for each in (*self.use.rules, *self.use.summaries))


@dataclass(frozen=True)
class Sent:
    """A message: to which stream, how long after the one before, and what is in it; no content at all is a deletion."""

    stream: str
    key: str
    after_ms: int = 0
    """Less than nothing: the broker's clock was set back."""
    content: tuple[tuple[str, Any], ...] | None = ()

    def value(self, key_field: str) -> bytes | None:
        if self.content is None:
            return None
        given = dict(self.content)
        times = {name: START_MS + given[name] for name in ("at_ms",) if name in given}
        return json.dumps({key_field: as_sent(self.stream, self.key), **given, **times}).encode()


def as_sent(stream: str, key: str) -> str | int:
    """A key in a message: events have numbers where other streams have their digits."""
    return int(key) if stream == "events" and key.isdigit() else key


def tape_of(use: UseCase, sent: Sequence[Sent]) -> list[Record]:
    """The messages as a tape, in the order of their arrival."""
    tape: list[Record] = []
    offsets: Counter[tuple[str, int]] = Counter()
    now_ms = START_MS
    keys = {each.name: each.key for each in (*use.raw, *use.references)}
    for each in sent:
        now_ms += each.after_ms
        place = each.stream, PARTITIONS[each.key]
        tape.append(Record(*place, offsets[place], now_ms, each.key.encode(), each.value(keys[each.stream])))
        offsets[place] += 1
    return tape


@lru_cache(maxsize=64)
def _use(invented: Invented) -> UseCase:
    return declared(source_of(invented))


def declared(source: str) -> UseCase:
    """The use that a module declares."""
    module: dict[str, Any] = {}
    exec(source, module)
    use: UseCase = module["INVENTED"]
    return use


def source_of(invented: Invented, past_ms: int = 1_000, future_ms: int = 1_000, disorder_ms: int = 5_000) -> str:
    """The use as a module of Python."""
    least, most = LIMITS[invented.limits]
    farthest = 90.0 if invented.limits == "narrow" else 1e300
    id_, own_id = ("id", 'Text("id", ANY, may_pass_luhn=True, takes_whole=True), ') if invented.has_ids else (None, "")
    lookups = 'Lookup(labels, "key", {"label": "label", "offset": "weight"}), ' if invented.looks_up else ""
    lines = [
        "from millrace.rules import *",
        f"ANY = {ANY!r}",
        f'SPAN = dict(key="key", time="at_ms", past_ms={past_ms}, future_ms={future_ms})',
        f"LEAST, MOST, FAR = {least}, {most}, {farthest}",
        'WHOLES = Whole("whole", LEAST, MOST), Whole("may_whole", LEAST, MOST, required=False)',
        'REALS = Real("latitude", -FAR, FAR), Real("longitude", -FAR, FAR, required=False)',
        'FIELDS = (Whole("at_ms", least=0), *WHOLES, *REALS, Text("may_text", ANY, required=False))',
        'KEY = Text("key", ANY, takes_whole=True)',
        f'events = EventType("events", "", (KEY, {own_id}*FIELDS), id={id_!r}, **SPAN)',
        'others = EventType("others", "", (KEY, *FIELDS), **SPAN)',
        'NAMED = Text("name", ANY), Text("label"), Whole("weight")',
        'labels = EventType("labels", "", NAMED, key="name", compacted=True)',
        f"REMEMBERED = {_mapping(invented.remembers)}",
        f"ADDED = {_mapping((name, f'lambda now, before: {text}') for name, text in invented.adds)}",
        f"enrichment = Enrichment(events, ({lookups}), REMEMBERED, ADDED)",
        'enriched = enrichment.enriched("enriched", "")',
        "RULES = (",
        *(
            f'    EventRule("event-{n}", "", events, lambda now, before: {text}, REMEMBERED),'
            for n, text in enumerate(invented.alert_when)
        ),
        *(
            f'    WindowRule("window-{n}", "", enriched, {key!r}, {window}, {_mapping(named)}, lambda w: {text}),'
            for n, (key, window, named, text) in enumerate(invented.windows)
        ),
        ")",
        "SUMMARIES = (",
        *(
            f'    WindowSummary("summary-{n}", "", enriched, {keys!r}, {window}, {_mapping(named)}),'
            for n, (keys, window, named) in enumerate(invented.summaries)
        ),
        ")",
        "STREAMS = events, enrichment, enriched, (others,), (labels,)",
        f'INVENTED = UseCase("invented", *STREAMS, RULES, SUMMARIES, disorder_ms={disorder_ms})',
    ]
    return "\n".join((*lines, ""))


def _mapping(named: Iterable[tuple[str, str]]) -> str:
    return f"{{{', '.join(f'{name!r}: {text}' for name, text in named)}}}"


WHOLES, REALS, TEXTS = ("whole", "may_whole", "at_ms"), ("latitude", "longitude"), ("may_text", "key")
FIELDS = {**dict.fromkeys(WHOLES, "whole"), **dict.fromkeys(REALS, "real"), **dict.fromkeys(TEXTS, "text")}
FIELD = st.sampled_from(sorted(FIELDS))
NUMBER = st.sampled_from(sorted((*WHOLES, *REALS)))
SPAN_MS = st.sampled_from([50, 100, 1, 200])

Column = tuple[str, str]
"""How a condition names a value, and its kind."""
Span = tuple[int, int]
"""The least and the largest number."""


@st.composite
def remembered(draw: st.DrawFn, name: str) -> tuple[str, list[Column]]:
    """A measure of a key's earlier events as text, with the values that it gives."""
    op = draw(st.sampled_from(["Max", "Min", "Sum", "Count", "Recent", "DistinctOthers", "Last"]))
    of = draw(NUMBER if op == "Sum" else FIELD)
    match op:
        case "Count":
            return "Count()", [(f"before.{name}", "whole")]
        case "Recent":
            return f"Count(within_ms={draw(SPAN_MS)})", [(f"before.{name}", "whole")]
        case "DistinctOthers":
            return f"DistinctOthers({of!r}, within_ms={draw(SPAN_MS)})", [(f"before.{name}", "whole")]
        case "Last":
            stream = draw(st.sampled_from(["others", "events"]))
            fields = draw(st.just([*REALS]) | st.lists(FIELD, min_size=1, max_size=2, unique=True))
            shown = [(f"before.{name}.{each}", FIELDS[each]) for each in fields]
            return f"Last({stream}, {', '.join(map(repr, fields))})", shown
    return f"{op}({of!r})", [(f"before.{name}", FIELDS[of])]


@st.composite
def counted(draw: st.DrawFn, name: str, columns: Sequence[Column], summed: Sequence[str]) -> tuple[str, list[Column]]:
    """A measure of a window over events with these columns as text, with the value that it gives."""
    op = draw(st.sampled_from(["Count", "Where", "CountDistinct", "Max", "Min", "Sum", "Last"]))
    if op in ("Count", "Where"):
        where = f"where=lambda now: {draw(conditions(columns))}" if op == "Where" else ""
        return f"Count({where})", [(f"w.{name}", "whole")]
    of, kind = draw(st.sampled_from([each for each in columns if op != "Sum" or each[1] in summed]))
    return f"{op}({of.removeprefix('now.')!r})", [(f"w.{name}", "whole" if op == "CountDistinct" else kind)]


WHOLE_LITERALS = st.sampled_from(["0", "1", "2", "-1", "3", str(2**63 - 1), str(-(2**63)), str(2**53 + 1)])
REAL_LITERALS = st.sampled_from(["0.0", "0.5", "-0.0", "1e300", "1.0", "9007199254740992.0", "-1e-300"])
TEXT_LITERALS = st.sampled_from(["'a'", "'b'", "''", "'it\\'s'", "'ü😀'"])
OPERATORS = st.sampled_from(["+", "-", "*"])
COMPARISONS = st.sampled_from([">", ">=", "<", "<=", "==", "!="])


def numbers(columns: Sequence[Column]) -> st.SearchStrategy[str]:
    """Texts of numbers that read at least one of the columns."""
    named = st.sampled_from([name for name, kind in columns if kind in ("whole", "real")])
    return st.recursive(
        named,
        lambda inner: st.builds(
            lambda left, op, right: f"({left} {op} {right})", inner, OPERATORS, inner | WHOLE_LITERALS | REAL_LITERALS
        ),
        max_leaves=3,
    )


@st.composite
def conditions(draw: st.DrawFn, columns: Sequence[Column]) -> str:
    """The text of a condition on these columns."""
    number = numbers(columns)
    ordered = st.builds(
        lambda left, op, right: f"({left} {op} {right})",
        number,
        COMPARISONS,
        number | WHOLE_LITERALS | REAL_LITERALS,
    )
    texts = [name for name, kind in columns if kind == "text"]
    simple = [ordered]
    if texts:
        text = st.sampled_from(texts)
        simple.append(
            st.builds("({} {} {})".format, text, st.sampled_from(["==", "!="]), text | TEXT_LITERALS),
        )
    places = [name.removesuffix(".latitude") for name, _ in columns if name.endswith(".latitude")]
    if len(places) > 1 and any(f"{places[-1]}.longitude" == name for name, _ in columns):
        simple.append(st.builds("(km(now, {}) {} {})".format, st.just(places[-1]), COMPARISONS, REAL_LITERALS))
    return draw(
        st.recursive(
            st.one_of(simple),
            lambda inner: st.one_of(
                st.builds("({} {} {})".format, inner, st.sampled_from(["&", "|", "==", "!="]), inner),
                st.builds("(~{})".format, inner),
            ),
            max_leaves=3,
        )
    )


TUMBLING = st.builds("Tumbling({})".format, SPAN_MS)
SLIDING = st.builds(lambda step, times: f"Sliding({step * times}, {step})", SPAN_MS, st.integers(1, 3))
SESSION = st.builds("Session({})".format, SPAN_MS)


@st.composite
def uses(
    draw: st.DrawFn,
    measures: Span = (0, 3),
    on_events: Span = (0, 2),
    on_windows: Span = (0, 2),
    charts: Span = (0, 1),
    summed: Sequence[str] = ("whole", "real"),
) -> Invented:
    """Uses of so many measures, and of rules and summaries over them; `summed` are the kinds that windows sum."""
    own = [(f"now.{name}", kind) for name, kind in FIELDS.items()]
    remembers, columns = [], [*own]
    for n in range(draw(st.integers(*measures))):
        text, values = draw(remembered(f"m{n}"))
        remembers.append((f"m{n}", text))
        columns += values
    looks_up = draw(st.booleans())
    adds = [(f"x{n}", draw(numbers(columns))) for n in range(draw(st.integers(0, 2)))]
    invented = Invented(
        draw(st.sampled_from(sorted(LIMITS))),
        draw(st.booleans()),
        looks_up,
        tuple(remembers),
        tuple(draw(st.lists(conditions(columns), min_size=on_events[0], max_size=on_events[1]))),
        tuple(adds),
    )
    kinds = {each.name: each.kind for each in invented.use.enriched.readable}
    enriched = [(f"now.{name}", kind) for name, kind in kinds.items() if name not in ("source_topic", "id")]
    windows = []
    for _ in range(draw(st.integers(*on_windows))):
        named, values = _named(draw, enriched, summed)
        key = draw(st.sampled_from(["key", "label"] if looks_up else ["key"]))
        windows.append((key, draw(TUMBLING | SLIDING | SESSION), named, draw(conditions(values))))
    summaries = []
    for _ in range(draw(st.integers(*charts))):
        keys = draw(st.lists(st.sampled_from(sorted(FIELDS)), max_size=2, unique=True))
        summaries.append((tuple(keys), draw(TUMBLING | SLIDING), _named(draw, enriched, summed)[0]))
    return Invented(
        invented.limits,
        invented.has_ids,
        looks_up,
        invented.remembers,
        invented.alert_when,
        invented.adds,
        tuple(windows),
        tuple(summaries),
    )


def _named(draw: st.DrawFn, enriched: Sequence[Column], summed: Sequence[str]) -> tuple[Named, list[Column]]:
    """The measures of a window: a count, so that a condition has a number, and others."""
    named, values = [("n", "Count()")], [("w.n", "whole")]
    for n in range(draw(st.integers(0, 3))):
        text, more = draw(counted(f"m{n}", enriched, summed))
        named.append((f"m{n}", text))
        values += more
    return tuple(named), values


KEYS = st.sampled_from(["a", "a", "a", "b", "c", "7", "a|i1"])
AFTER_MS = st.sampled_from([0, 0, 0, 10, 50, 200, -100])
AT_MS = st.builds(lambda n, aside: 50 * n + aside, st.integers(0, 8), st.sampled_from([0, 0, 0, 1, -1, 0, 0, 0, 5_000]))
SMALL = st.integers(-2, 2)
NUMBERS: dict[str, tuple[st.SearchStrategy[Any], st.SearchStrategy[Any]]] = {
    "narrow": (SMALL | st.sampled_from([9, -9]), st.sampled_from([0.0, -0.0, 0.5, 1.0, -1.5, 89.9])),
    "wide": (
        SMALL | st.sampled_from([2**63 - 1, -(2**63), 2**62, -(2**62), 2**53 + 1]),
        st.sampled_from([0.0, -0.0, 0.5, -1.5, 1e300, -1e300, 1e-300, 9007199254740992.0]),
    ),
}
TEXT = st.sampled_from(["a", "b", "", "ü", "😀", "\uff5e", "it's"])


# What no field allows, or only some do.
ODD = st.tuples(
    st.sampled_from(["id", "whole", "may_whole", "latitude", "longitude", "may_text"]),
    st.sampled_from(
        [None, True, "5", 5, 5.0, -0.0, [1], {}, "", "4111111111111111", 4111111111111111, 2**64, "x" * 65]
    ),
)


def weighted(choices: Mapping[st.SearchStrategy[Any], int]) -> st.SearchStrategy[Any]:
    """One of some strategies, each as often as its weight; `one_of` drops repetitions."""
    return st.sampled_from([each for each, weight in choices.items() for _ in range(weight)]).flatmap(lambda own: own)


def optional(name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[tuple[str, Any], ...]]:
    """A field that may be absent or null."""
    given = st.tuples(st.tuples(st.just(name), values))
    return weighted({given: 4, st.just(((name, None),)): 1, st.just(()): 1})


def contents(limits: str) -> st.SearchStrategy[tuple[tuple[str, Any], ...]]:
    """The content of an event; a few are beyond all limits."""
    whole, real = NUMBERS[limits]
    return st.builds(
        lambda id_, at_ms, whole, latitude, *others: (
            ("id", id_),
            ("at_ms", at_ms),
            ("whole", whole),
            ("latitude", latitude),
            *(each for field in others for each in field),
        ),
        st.integers(0, 19).map("i{}".format) | st.just("i1|i2"),
        AT_MS,
        weighted({whole: 19, st.just(2**63): 1}),
        real,
        optional("may_whole", whole),
        optional("longitude", real),
        optional("may_text", TEXT),
        weighted({st.just(()): 19, st.tuples(ODD): 1}),
    )


LABEL = st.builds(lambda label, weight: (("label", label), ("weight", weight)), st.sampled_from(["x", "y"]), SMALL)
LABELLED = tuple(Sent("labels", key, 0, (("label", "x"), ("weight", 1))) for key in PARTITIONS)


def tapes(limits: str) -> st.SearchStrategy[tuple[Sent, ...]]:
    """Messages of all streams, in the order of their arrival."""
    event = st.builds(Sent, st.just("events"), KEYS, AFTER_MS, contents(limits))
    other = st.builds(Sent, st.just("others"), KEYS, AFTER_MS, contents(limits))
    label = st.builds(Sent, st.just("labels"), KEYS, AFTER_MS, weighted({LABEL: 3, st.none(): 1}))
    sent = weighted({event: 6, other: 2, label: 1})
    lists = weighted({st.lists(sent, min_size=8, max_size=30): 3, st.lists(sent, max_size=8): 1})
    return lists.map(lambda own: (*LABELLED, *own))


CASES = uses().flatmap(lambda invented: st.tuples(st.just(invented), tapes(invented.limits)))
"""A use and a tape for it."""
