"""The model of pattern files. It is closed: an undeclared key is an error when the file is read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError, core_schema

from millrace import kept, project, registry
from millrace.patterns import backfills
from millrace.patterns.parquet import PLACE
from millrace.rules import EventRule, EventType, FoldRule, RuleError, UseCase, WindowRule
from millrace.rules.expressions import DeclarationError
from millrace.rules.memory import StageMemory
from millrace.rules.nearest import nearest
from millrace.yaml_text import YamlError, read_yaml


class PatternError(DeclarationError):
    """A pattern file that cannot be used: names the file, the key and the remedy."""


@dataclass(frozen=True)
class _EngineName:
    """Narrows a text to the names of engines, or of those that run one of some shapes."""

    shapes: Sequence[str] = ()

    def names(self) -> list[str]:
        return registry.able_to(self.shapes) if self.shapes else registry.names()

    def check(self, given: Any) -> str:
        if given in (names := self.names()):
            return str(given)
        *others, last = map(repr, names)
        expected = f"{', '.join(others)} or {last}" if others else last
        raise PydanticCustomError("engine", "Input should be {expected}", {"expected": expected})

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, core: core_schema.CoreSchema, handler: Any) -> dict[str, Any]:
        names = self.names()
        return {"const": names[0], "type": "string"} if len(names) == 1 else {"enum": names, "type": "string"}


STORES = ("hdfs", "hbase")
AT_LEAST_ONCE = "at-least-once-with-ids"
"""The guarantee that every engine gives."""
EXACTLY_ONCE = "exactly-once"
AT_MOST_ONCE = "at-most-once"
Engine = Annotated[str, _EngineName()]
PersistingEngine = Annotated[str, _EngineName([f"{registry.PERSIST}{store}" for store in STORES])]


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EventsStage(Closed):
    """The per-event stage: reads raw topics, refuses, enriches, alerts, writes the intermediate topic."""

    engine: Engine
    rules: tuple[str, ...] = Field((), description="Names of per-event rules of the use.")
    parallelism: int = Field(
        1,
        strict=True,
        ge=1,
        le=registry.INSTANCES_MOST,
        description="Parallel instances of the stage, where its engine has them; at most one per partition works.",
    )
    real_time: bool = Field(
        False,
        description="An engine that takes events in batches writes each one as it comes instead. The stage keeps "
        "nothing then: no ids, no measures, no reference data.",
    )


class WindowsStage(Closed):
    """The windows stage: reads the intermediate topic, alerts on windows, writes the numbers for the charts."""

    engine: Engine
    rules: tuple[str, ...] = Field((), description="Names of window rules of the use.")
    summaries: tuple[str, ...] = Field((), description="Names of window summaries of the use.")


class PersistStage(Closed):
    """The persisting stage: writes accepted events and the tables of the use to stores."""

    engine: PersistingEngine
    to: tuple[Literal["hdfs", "hbase"], ...] = Field(min_length=1)


class Stages(Closed):
    events: EventsStage
    windows: WindowsStage | None = None
    persist: PersistStage | None = None

    @property
    def windowing(self) -> WindowsStage:
        """The windows stage; one without rules and summaries where the pattern has none."""
        return self.windows or WindowsStage(engine=self.events.engine, rules=(), summaries=())


class Promises(Closed):
    """What the pattern promises its readers; `validate` measures the numbers and reports them beside the promise."""

    delivery: Literal["at-least-once-with-ids", "exactly-once", "at-most-once"] = Field(
        description="at-least-once-with-ids: alerts and enriched events may arrive twice; a reader that keeps one per "
        "id has each exactly once. exactly-once: none arrives twice at a reader of committed messages. "
        "at-most-once: none arrives twice at any reader, and what was in flight when the job restarted may be lost."
    )
    alert_latency_ms_p99: int = Field(
        gt=0,
        strict=True,
        description="Per-event alerts, from the intended send time, at 1,000 events/s, once the jobs are warm.",
    )
    warm_after_s: Annotated[int, Field(ge=0, le=600, strict=True)] = Field(
        20,
        description="No latency is promised for the first seconds after traffic begins: until a JVM has compiled what "
        "it runs, it is several times slower.",
    )


class Pattern(Closed):
    """A variant of an architecture: what runs where, over which topics, with which promises."""

    title: str = Field(min_length=1, max_length=80)
    doc: str = Field(min_length=1, description="What the variant is for, in a few sentences.")
    use: str = Field(description="The use whose events and rules it runs.")
    partitions: Annotated[int, Field(ge=1, le=256, strict=True)] = 1
    retention_hours: int = Field(
        24,
        strict=True,
        ge=1,
        le=24 * 365,
        description="How long events and results stay in their topics. A verdict needs all of them since the pattern's "
        "first event; without them it is `unknown`, unless the ledger has judged them.",
    )
    stages: Stages
    promises: Promises


@dataclass(frozen=True)
class Variant:
    """A pattern file by its name: also its CLI argument, the end of its DAGs' ids and the prefix of its topics."""

    name: str
    pattern: Pattern
    is_finite: bool = False
    """Whether it is a backfill: its topics hold all that they ever will."""
    declared: str = ""
    """The copy of its use's code, as it was deployed; without one, the project's is meant."""

    @property
    def use(self) -> UseCase:
        return kept.use_of(self.declared, self.pattern.use)

    @property
    def engines(self) -> tuple[str, ...]:
        """The engines of its jobs, the per-event stage's first."""
        stages = self.pattern.stages
        persisting = (stages.persist.engine,) if stages.persist else ()
        return tuple(dict.fromkeys((stages.events.engine, stages.windowing.engine, *persisting)))

    @property
    def stores(self) -> tuple[str, ...]:
        """The stores that it persists to."""
        persist = self.pattern.stages.persist
        return persist.to if persist else ()

    @property
    def event_rules(self) -> tuple[EventRule | FoldRule, ...]:
        """The rules of the per-event stage."""
        rules = (self.use.rule(name) for name in self.pattern.stages.events.rules)
        return tuple(rule for rule in rules if not isinstance(rule, WindowRule))

    @property
    def window_rules(self) -> tuple[WindowRule, ...]:
        """The rules of the windows stage."""
        rules = (self.use.rule(name) for name in self.pattern.stages.windowing.rules)
        return tuple(rule for rule in rules if isinstance(rule, WindowRule))

    def topic(self, event_type: EventType | str) -> str:
        """The topic of this variant that carries a kind of event."""
        return f"{self.name}.{event_type if isinstance(event_type, str) else event_type.name}"


def names() -> list[str]:
    """The names of all patterns, sorted."""
    return sorted(files())


def load_all() -> list[Variant]:
    """Every pattern, sorted by name; the error lists all invalid files."""
    found, problems = read_all()
    if problems:
        raise PatternError("\n".join(problems))
    return found


def readable() -> list[Variant]:
    """Every pattern whose file is valid, sorted by name; the others are left out."""
    return read_all()[0]


def read_all() -> tuple[list[Variant], list[str]]:
    """Every pattern whose file is valid, sorted by name, and what is wrong with the other files."""
    found, problems = [], []
    for name in names():
        try:
            found.append(load(name))
        except PatternError as error:
            problems.append(str(error))
    return found, problems


def load(name: str) -> Variant:
    """The pattern, or the backfill, of that name."""
    if (content := backfills.content(name)) is not None:
        return Variant(name, Pattern.model_validate(content["pattern"]), is_finite=True)
    require_known(name)
    return read(files()[name])


def require_known(name: str) -> None:
    """Refuse a name that no pattern file has."""
    if name not in names():
        require_folders()
        raise PatternError(f"there is no pattern '{name}'; {nearest(name, names())}")


def is_name(name: str) -> bool:
    """Whether it is a valid name of a pattern, and so of topics, tables, folders and files."""
    return re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", name) is not None


def read(path: Path) -> Variant:
    """The pattern in a file, checked against the model and against what its use declares."""
    if not is_name(path.stem):
        raise PatternError(
            f"{path}: its name must be at most 64 lower-case letters, digits and dashes, as in my-pattern.yaml"
        )
    try:
        content = read_yaml(path.read_text(encoding="utf-8"))
    except YamlError as error:
        raise PatternError(f"{path.name}: not valid YAML: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PatternError(f"{path}: cannot be read: {error}") from None
    try:
        pattern = Pattern.model_validate(content)
    except ValidationError as invalid:
        raise PatternError("\n".join(f"{path.name}: {_remedy(each)}" for each in invalid.errors())) from None
    variant = Variant(path.stem, pattern)
    for complaint in _complaints(variant):
        raise PatternError(f"{path.name}: {complaint}")
    return variant


def json_schema() -> dict[str, Any]:
    """The schema of a pattern file, for editors; `python -m millrace.patterns` writes it beside the patterns."""
    return Pattern.model_json_schema()


def files() -> dict[str, Path]:
    """Every pattern's file, by its name."""
    found: dict[str, Path] = {}
    for path in sorted(path for folder in folders() for path in folder.glob("*.yaml")):
        if path.stem in found:
            raise PatternError(f"{path} and {found[path.stem]} have one name; rename one of them")
        found[path.stem] = path
    return found


def folders() -> list[Path]:
    """Where the pattern files are: MILLRACE_PATTERNS, or the project's uses."""
    given = os.environ.get("MILLRACE_PATTERNS")
    if not given:
        return project.pattern_folders()
    if not Path(given).is_dir():
        raise PatternError(
            f"MILLRACE_PATTERNS={given} is not a folder; name the one with the pattern files, or unset it"
        )
    return [Path(given).absolute()]


def require_folders() -> None:
    """Refuse a project that has no use with patterns."""
    if not folders():
        raise PatternError(
            f"{project.root()} has no pipelines/<use>/patterns; "
            "run this in a project that has, name one in MILLRACE_PROJECT, or make one with `millrace init my-use`"
        )


def shape_of(rule: EventRule | FoldRule | WindowRule) -> str:
    """The shape of `registry.SHAPES` that a rule has."""
    match rule:
        case FoldRule():
            return "fold"
        case WindowRule():
            return type(rule.window).__name__.lower()
    return "event"


def _complaints(variant: Variant) -> list[str]:
    pattern, stages = variant.pattern, variant.pattern.stages
    if pattern.use not in project.uses():
        return [f"use: there is no use '{pattern.use}'; choose one of: {', '.join(project.uses())}"]
    complaints = []
    for where, names_, wanted in (
        ("stages.events.rules", stages.events.rules, "event"),
        ("stages.windows.rules", stages.windowing.rules, "window"),
    ):
        for name in dict.fromkeys(names_):
            if names_.count(name) > 1:
                complaints.append(f"{where}: '{name}' is there {names_.count(name)} times; name each rule once")
            try:
                rule = variant.use.rule(name)
            except RuleError as error:
                complaints.append(f"{where}: {error}")
                continue
            kind = "window" if isinstance(rule, WindowRule) else "event"
            if kind != wanted:
                complaints.append(f"{where}: '{name}' is a rule of the {kind}s stage; move it to stages.{kind}s.rules")
            engine = stages.windowing.engine if wanted == "window" else stages.events.engine
            if reason := _refusal(engine, shape_of(rule)):
                complaints.append(f"{where}: '{name}' cannot run on {engine}: {reason}")
    for name in stages.windowing.summaries:
        if stages.windowing.summaries.count(name) > 1:
            complaints.append(f"stages.windows.summaries: '{name}' is there more than once; name each summary once")
        try:
            variant.use.summary(name)
        except RuleError as error:
            complaints.append(f"stages.windows.summaries: {error}")
            continue
        if reason := _refusal(stages.windowing.engine, "summary"):
            complaints.append(f"stages.windows.summaries: '{name}' cannot run on {stages.windowing.engine}: {reason}")
    if stages.persist:
        for store in stages.persist.to:
            if stages.persist.to.count(store) > 1:
                complaints.append(f"stages.persist.to: '{store}' is there more than once; name each store once")
            for name in variant.use.enriched.names:
                if store == "hdfs" and name.lower() in PLACE:
                    complaints.append(
                        f"stages.persist.to: files in HDFS are in folders by {' and '.join(PLACE)}, so no field of "
                        f"'{variant.use.enriched.name}' can be called '{name}'; rename it, or persist to hbase alone"
                    )
            if reason := _refusal(stages.persist.engine, f"{registry.PERSIST}{store}"):
                complaints.append(f"stages.persist.to: {stages.persist.engine} cannot write to '{store}': {reason}")
    if stages.events.parallelism > pattern.partitions:
        complaints.append(
            f"stages.events.parallelism: {stages.events.parallelism} instances cannot share {pattern.partitions} "
            "partition(s); raise partitions or lower parallelism"
        )
    if stages.events.parallelism > 1 and (reason := _refusal(stages.events.engine, "parallel")):
        complaints.append(f"stages.events.parallelism: {stages.events.engine} runs one instance: {reason}; take it out")
    if stages.events.real_time:
        if reason := _refusal(stages.events.engine, "real-time"):
            complaints.append(
                f"stages.events.real_time: {stages.events.engine} has no such mode: {reason}; take it out"
            )
        elif remembered := _remembered(variant):
            complaints.append(f"stages.events.real_time: the stage keeps {remembered}; take it out")
    for engine in _engines(stages):
        if reason := _refusal(engine, pattern.promises.delivery):
            complaints.append(f"promises.delivery: {engine} does not deliver {pattern.promises.delivery}: {reason}")
    if stages.windowing.engine != stages.events.engine:
        for reason in _apart(stages.events.engine, stages.windowing.engine):
            complaints.append(f"stages.windows.engine: {reason}; choose {stages.events.engine} here too")
    elif stages.windows and not set(registry.WINDOWS) & registry.manifest(stages.windows.engine).can:
        reason = _refusal(stages.windows.engine, registry.WINDOWS[0])
        complaints.append(f"stages.windows.engine: {stages.windows.engine} has no windows: {reason}")
    return complaints


def _remembered(variant: Variant) -> str | None:
    """What the per-event stage keeps from one event to the next; None if it keeps nothing."""
    use, rules = variant.use, tuple(rule for rule in variant.event_rules if isinstance(rule, EventRule))
    if use.judged.id:
        return f"the ids of '{use.judged.name}', to find repetitions"
    if StageMemory(use, rules).measures:
        names_ = [rule.name for rule in rules if rule.remembers] or [use.enriched.name]
        return f"measures for {', '.join(map(repr, names_))}"
    if use.enrichment.lookups:
        return f"reference data of {', '.join(repr(each.reference.name) for each in use.enrichment.lookups)}"
    return None


def _engines(stages: Stages) -> list[str]:
    """The engines of a pattern's stages, each once."""
    persist = [stages.persist.engine] if stages.persist else []
    return list(dict.fromkeys([stages.events.engine, stages.windowing.engine, *persist]))


def _apart(events: str, windows: str) -> Iterator[str]:
    """Why the windows of one engine cannot follow the per-event stage of another."""
    for engine, shape in ((windows, "events-elsewhere"), (events, "windows-elsewhere")):
        if reason := _refusal(engine, shape):
            yield reason


def _refusal(engine: str, shape: str) -> str | None:
    """Why an engine does not run a shape; None if it does."""
    manifest = registry.manifest(engine)
    return None if shape in manifest.can else manifest.cannot.get(shape, f"it does not declare '{shape}'")


def _remedy(error: Any) -> str:
    where = ".".join(str(part) for part in error["loc"]) or "the file"
    match error["type"]:
        case "extra_forbidden":
            known = _known_keys(error["loc"][:-1])
            return f"{where}: no such key; {nearest(str(error['loc'][-1]), known)}"
        case "missing":
            return f"{where}: this key is required; add it"
        case "model_type":
            return f"{where}: there are no keys here; write {', '.join(map(str, _known_keys(error['loc'])))}"
        case "tuple_type":
            return f"{where}: write a list in brackets, such as [a, b]; it is {error['input']!r}"
    return f"{where}: {error['msg']}, but it is {error['input']!r}"


def _known_keys(location: tuple[Any, ...]) -> list[str]:
    model: Any = Pattern
    for part in location:
        annotation = model.model_fields[part].annotation
        model = next(
            (each for each in getattr(annotation, "__args__", (annotation,)) if hasattr(each, "model_fields")), model
        )
    return list(model.model_fields)
