"""The shape of an event, declared once: contracts, the engines' readers and the oracle's follow from it."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from millrace.rules.containers import require_tuples
from millrace.rules.expressions import Kind, RuleError
from millrace.rules.nearest import nearest

WHOLE_LEAST, WHOLE_MOST = -(2**63), 2**63 - 1
# Objects and lists within each other, the event's own included. Python's parser fails near 1000, the sooner the deeper
# the stack that calls it.
DEPTH_MOST = 500
NAME_PATTERN = r"[A-Za-z0-9_.:\-]+"
# Three centuries: sums of a time and some spans are of 64 bits, and a literal of Flink has ten digits of seconds.
SPAN_MOST_MS = (10**10 - 1) * 1000
# What comes again in time may be judged so much later, and is still known.
OUTAGE_MS = 3_600_000
# Kafka takes a message of a megabyte; a dead letter has a third more than the message that was refused.
BYTES_MOST = 700_000
# What is made of accepted messages may have three bytes for one of theirs: letters of four bytes are escaped.
GROWTH_MOST = 3
SHOWN_BYTES_MOST = 300_000
LETTER_BYTES_MOST = 12
LENGTH_MOST = 2**31 - 1
VERSION_MOST = 2**31 - 1
TOKEN_PATTERN, TOKEN_LENGTH = r"[0-9a-f]{8}\.[0-9a-f]{32}", 41  # id of the key, then the HMAC


@dataclass(frozen=True)
class Secret:
    """What never leaves the sender: a field carries a keyed token in its place."""

    column: str
    """Where recorded files have it."""
    pattern: str
    """Of the secret without its separators."""
    complaint: str
    """Describes a valid secret, without repeating the wrong one."""
    separators: str = ""


@dataclass(frozen=True)
class Text:
    """A text that matches its pattern from start to end; patterns keep to what Python, Java and JSON Schema share."""

    name: str
    pattern: str = NAME_PATTERN
    max_length: int = 64
    required: bool = True
    may_pass_luhn: bool = False
    """Good values may look like card numbers, as tokens and numeric ids do by chance: only bad ones are searched."""
    kind: Kind = "text"
    token_of: Secret | None = None
    takes_whole: bool = False
    """Whole numbers are taken, too, as their digits: keys and ids are texts, and many sources number theirs."""

    @cached_property
    def bytes_most(self) -> int:
        """How many bytes the longest value may have as JSON, with quotes and a comma."""
        return len('"",') + self.max_length * (1 if _is_plain(self.pattern) else LETTER_BYTES_MOST)

    def schema(self) -> dict[str, Any]:
        kinds = ["string", "integer"] if self.takes_whole else "string"
        whole = f"(?:{self.pattern})" if _has_branches(self.pattern) else self.pattern
        return {"type": kinds, "pattern": f"^{whole}$", "maxLength": self.max_length}

    def limits(self) -> dict[str, Any]:
        limits = {"pattern": self.pattern, "max_length": self.max_length, "may_pass_luhn": self.may_pass_luhn}
        return limits | ({"takes_whole": True} if self.takes_whole else {})


@dataclass(frozen=True)
class Whole:
    """An exact whole number within its limits."""

    name: str
    least: int = WHOLE_LEAST
    most: int = WHOLE_MOST
    required: bool = True
    may_pass_luhn: bool = False
    kind: Kind = "whole"

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}

    def limits(self) -> dict[str, Any]:
        return {"least": self.least, "most": self.most, "may_pass_luhn": self.may_pass_luhn}


@dataclass(frozen=True)
class Real:
    """A finite number within its limits: the double nearest to what is written; its zero has no sign."""

    name: str
    least: float
    most: float
    required: bool = True
    kind: Kind = "real"

    def schema(self) -> dict[str, Any]:
        return {"type": "number", "minimum": self.least, "maximum": self.most}

    def limits(self) -> dict[str, Any]:
        return {"least": self.least, "most": self.most}


@dataclass(frozen=True)
class Words:
    """A list of short texts; only in events that the pipeline itself makes, so no rule reads it."""

    name: str
    required: bool = True

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {"type": "string"}}


@dataclass(frozen=True)
class TextMap:
    """Named texts, such as the values an alert was judged on; only in events that the pipeline itself makes."""

    name: str
    required: bool = True

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": {"type": ["string", "null"]}}


EventField = Text | Whole | Real
AnyField = EventField | Words | TextMap


SENT_MS = Whole("sent_ms", least=0, required=False)
"""When the sender meant to send an event: latency counts from here. Every type with a time has it."""


@dataclass(frozen=True)
class EventType:
    """A kind of event and the topic that carries it."""

    name: str
    doc: str
    fields: tuple[AnyField, ...]
    key: str
    """The field that keys the topic: events with the same key keep their order."""
    id: str | None = None
    """The field that identifies an event among those of its key; a second one with the same id is a duplicate."""
    time: str | None = None
    """The field with the event's own time, in milliseconds since 1970."""
    past_ms: int = 0
    """How much older than its arrival an event may be."""
    future_ms: int = 0
    """How far ahead of its arrival an event's clock may be."""
    max_bytes: int = 16_384
    compacted: bool = False
    """Reference data: the topic keeps the last event of each key."""
    forbidden: tuple[str, ...] = ()
    """Names that no field may have at any depth, as `plain_name` gives them, such as a PIN."""
    version: int = 1
    """Of the contract: counts the changes that its readers must follow."""
    _kinds: Mapping[str, Kind] = field(init=False, repr=False, compare=False, hash=False, default_factory=dict)

    def __post_init__(self) -> None:
        require_tuples(f"event type '{self.name}'", fields=self.fields, forbidden=self.forbidden)
        if self.time is not None and SENT_MS.name not in [f.name for f in self.fields]:
            object.__setattr__(self, "fields", (*self.fields, SENT_MS))
        names = [f.name for f in self.fields]
        for name in names:
            require_name(f"event type '{self.name}'", "field", name)
        for complaint in _complaints(self):
            raise RuleError(f"event type '{self.name}'{complaint}")
        for forbidden in self.forbidden:
            if forbidden != plain_name(forbidden) or forbidden in map(plain_name, names):
                raise RuleError(
                    f"event type '{self.name}': '{forbidden}' cannot be forbidden: a field has this name, or "
                    "it is not in lower-case letters and digits"
                )
        for text in (f for f in self.fields if isinstance(f, Text)):
            if text.token_of and text.pattern != TOKEN_PATTERN:
                raise RuleError(
                    f"event type '{self.name}': '{text.name}' is a token; give it pattern=TOKEN_PATTERN and "
                    "max_length=TOKEN_LENGTH"
                )
        object.__setattr__(self, "_kinds", {f.name: f.kind for f in self.fields if isinstance(f, EventField)})

    def kind(self, name: str) -> Kind:
        """The kind of a field that a rule may read."""
        if name not in self._kinds:
            raise RuleError(f"event type '{self.name}' has no field '{name}'; {nearest(name, self._kinds)}")
        return self._kinds[name]

    @property
    def remembered_ms(self) -> int:
        """How long an id is remembered: as long as a repetition of its event would be accepted."""
        return self.past_ms + self.future_ms

    @property
    def kept_ms(self) -> int:
        """How long an engine whose state expires by the clock keeps an id: what comes again may wait for it."""
        return self.remembered_ms + OUTAGE_MS

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all fields, in their order."""
        return tuple(f.name for f in self.fields)

    @property
    def tokens(self) -> Mapping[str, Secret]:
        """The fields that carry a token, and what each stands for."""
        return {f.name: f.token_of for f in self.fields if isinstance(f, Text) and f.token_of}

    @cached_property
    def readable(self) -> tuple[EventField, ...]:
        """The fields a rule can read: single values."""
        return tuple(f for f in self.fields if isinstance(f, EventField))

    @cached_property
    def may_be_empty(self) -> frozenset[str]:
        """The names of the required texts that may be empty."""
        texts = (f for f in self.fields if isinstance(f, Text) and f.required)
        return frozenset(text.name for text in texts if re.fullmatch(text.pattern, ""))

    def json_schema(self) -> dict[str, Any]:
        """The contract of the topic; undeclared fields are ignored."""
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": self.name,
            **({"version": self.version} if self.version > 1 else {}),
            "description": self.doc,
            "type": "object",
            "properties": {f.name: _nullable(f.schema(), f.required) for f in self.fields},
            "required": [f.name for f in self.fields if f.required],
            "additionalProperties": True,
        }

    def reader(self) -> dict[str, Any]:
        """The same as plain data for the engines' native reader."""
        return {
            "name": self.name,
            "max_bytes": self.max_bytes,
            "max_depth": DEPTH_MOST,
            "time": self.time,
            "past_ms": self.past_ms,
            "future_ms": self.future_ms,
            "forbidden": list(self.forbidden),
            "fields": [{"name": f.name, "kind": f.kind, "required": f.required, **f.limits()} for f in self.readable],
        }


def _complaints(event_type: EventType) -> Iterator[str]:
    """What is wrong with the fields, as the end of a sentence that begins with the event type."""
    declared = {f.name: f for f in event_type.fields}
    names = [f.name for f in event_type.fields]
    times = Counter(map(str.lower, names))
    for name in names:
        if times[name.lower()] > 1:
            like = f"fields '{name}'" if names.count(name) > 1 else f"fields like '{name}', but for capitals"
            yield f" has {times[name.lower()]} {like}; rename one of them"
    for role in ("key", "id", "time"):
        name = getattr(event_type, role)
        if name is None:
            continue
        if name not in declared:
            yield f" has no field '{name}'; its fields: {', '.join(names)}"
        elif role == "time" and not isinstance(declared[name], Whole):
            yield f": its time '{name}' is not a whole number; declare Whole('{name}'), in milliseconds since 1970"
        elif role == "time" and not declared[name].required:
            yield f": its time '{name}' is optional; an event without a time is in no window"
    for span in ("past_ms", "future_ms"):
        if not is_whole(getattr(event_type, span), 0, SPAN_MOST_MS):
            yield f": {span} must be {whole_from(0, SPAN_MOST_MS)}, not {getattr(event_type, span)}"
    if not is_whole(event_type.max_bytes, 1, BYTES_MOST):
        yield f": max_bytes must be from 1 to {BYTES_MOST}, not {event_type.max_bytes}"
    if not is_whole(event_type.version, 1, VERSION_MOST):
        yield f": version must be {whole_from(1, VERSION_MOST)}, not {event_type.version!r}"
    sent = declared.get(SENT_MS.name, SENT_MS)
    if not isinstance(sent, Whole) or sent.required:
        yield f": '{SENT_MS.name}' is when the sender meant to send an event; leave the field out, or rename it"
    for each in event_type.fields:
        yield from _odd_limits(each)


def _odd_limits(declared: AnyField) -> Iterator[str]:
    match declared:
        case Text(name=name, pattern=pattern):
            if not is_whole(declared.max_length, 1, LENGTH_MOST):
                yield f": the max_length of '{name}' must be {whole_from(1, LENGTH_MOST)}, not {declared.max_length!r}"
            try:
                re.compile(pattern)
            except re.error as error:
                yield f": the pattern of '{name}' is no regular expression: {error}"
            if differs := _unshared(pattern):
                yield (
                    f": the pattern of '{name}' has '{differs}', which Python, Java and JSON Schema do not read alike; "
                    "write it otherwise"
                )
            if _REPEATED_GROUP.search(_bare(pattern)) and declared.max_length > GROUPS_LENGTH_MOST:
                yield (
                    f": the pattern of '{name}' repeats a group, for which Java needs memory with each letter; give it "
                    f"a max_length of at most {GROUPS_LENGTH_MOST:,}, or a set of letters such as [a-z0-9]* instead"
                )
        case Whole(name=name, least=least, most=most) | Real(name=name, least=least, most=most):
            if isinstance(declared, Whole) and not (_is_of_64_bits(least) and _is_of_64_bits(most)):
                yield f": the least and the most of '{name}' must be whole numbers of 64 bits, not {least} and {most}"
            elif isinstance(declared, Real) and not (_is_finite(least) and _is_finite(most)):
                yield f": the least and the most of '{name}' must be finite, not {least} and {most}"
            elif not least <= most:
                yield f": no number is from {least} to {most}; change the least or the most of '{name}'"


_ESCAPED = re.compile(r"\\[^A-Za-z]|\\[dDwWsSnrtf]|\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}")
_SET = re.compile(r"\[[^]]*\]")
# Empty sets, sets within sets, their intersection, and other letters that a backslash gives a meaning.
_UNSHARED_ANYWHERE = re.compile(r"\[\^?\]|\[[^]]*(?:\[|&&)|\\[A-Za-z]")
# Groups with a name or a flag, quantifiers that never give back, and braces that are no quantifier.
_UNSHARED_OUTSIDE_SETS = re.compile(r"\(\?(?!:|=|!|<=|<!)|[*+?}]\+|\{(?!\d)")
_REPEATED_GROUP = re.compile(r"\)(?:[*+]|\{\d*,\}|\{(?:\d*,)?\d{4,}\})")
GROUPS_LENGTH_MOST = 1_000
"""Java matches a repeated group with some frames of the stack for each repetition, and a thread has a megabyte."""


def _unshared(pattern: str) -> str | None:
    """What Python, Java and JSON Schema would not read alike in a pattern."""
    found = _UNSHARED_ANYWHERE.search(_ESCAPED.sub("x", pattern)) or _UNSHARED_OUTSIDE_SETS.search(_bare(pattern))
    return found and found[0]


def _bare(pattern: str) -> str:
    """A pattern with an x for each escaped letter and each set."""
    return _SET.sub("x", _ESCAPED.sub("x", pattern))


def require_name(of: str, what: str, name: str) -> None:
    """Refuse the name of a field or a measure that an engine or a store cannot have, or has for itself."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,63}", name):
        raise RuleError(
            f"{of}: no {what} can be called '{name}'; use letters, digits and underscores, a letter first, at most 64"
        )


def require_apart(names: Iterable[str]) -> None:
    """Refuse columns whose names differ in capitals only."""
    if complaint := alike(names):
        raise RuleError(complaint)


def alike(names: Iterable[str]) -> str | None:
    """A complaint about two names that differ in capitals only."""
    first: dict[str, str] = {}
    for name in names:
        other = first.setdefault(name.lower(), name)
        if other != name:
            return f"'{other}' and '{name}' differ in capitals only, which an engine takes for one; rename one"
    return None


def is_whole(value: object, least: int, most: int) -> bool:
    """Whether a number of a declaration is a whole one within these limits."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def whole_from(least: int, most: int) -> str:
    """What such a number must be, for an error."""
    return f"a whole number from {least} to {most:,}"


def _is_finite(value: object) -> bool:
    """Whether a limit of a declaration is a number that a double holds."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_of_64_bits(value: object) -> bool:
    return is_whole(value, WHOLE_LEAST, WHOLE_MOST)


@lru_cache(maxsize=4_096)
def plain_name(name: str) -> str:
    """A name without its spelling: ASCII letters and digits in lower case."""
    return re.sub(r"[^A-Za-z0-9]", "", name).lower()


_ONE_CHARACTER = re.compile(r"\\.|\[(?:\\.|[^]\\])*\]")
_LONG_AS_JSON = "".join(map(chr, range(32))) + '"\\é'


def _is_plain(pattern: str) -> bool:
    """Whether each letter of a text is a byte of JSON, as far as its pattern shows it."""
    if not pattern.isascii() or '"' in pattern or re.search(r"\\[xu\d]", pattern):
        return False
    parts = [*_ONE_CHARACTER.findall(pattern), *re.findall(r"\.", _bare(pattern))]
    return not any(re.search(part, _LONG_AS_JSON, re.ASCII) for part in parts)


def _has_branches(pattern: str) -> bool:
    """Whether `|` parts the whole pattern: one in a group or a class does not."""
    rest, inner = "", _ONE_CHARACTER.sub("", pattern)
    while inner != rest:
        rest, inner = inner, re.sub(r"\([^()]*\)", "", inner)
    return "|" in rest


def _nullable(schema: dict[str, Any], required: bool) -> dict[str, Any]:
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return schema if required else {**schema, "type": [*kinds, "null"]}
