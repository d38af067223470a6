"""The figures of the documents: each equals its record, and a line below names the record's commit and date."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from millrace.errors import InfraError
from millrace.patterns import load, load_all, names
from millrace.registry import SHAPES, Manifest, manifest, manifests
from millrace.settings import PROJECT
from tests.conformance.played import shown

Records = Mapping[str, Mapping[str, Any]]
"""The content of docs/records, by the name of the file."""

LINK = re.compile(r"\[([^\]]+)\]\((?:[\w.]+/)*records/([\w-]+)\.json\)")
NOT_MEASURED = "not measured"
DEPLOY = "deploy"
FIGURE = re.compile(
    rf"(?:(?P<label>\D.*?) )?(?P<value>\d+ / \d+ ms|(?:\d+ min )?\d+ s|\d+ MB|\d+ per CPU-s|{NOT_MEASURED})"
)
CONFORMANCE = re.compile(
    r"tests/conformance/test_(?:scenarios|windows)\.py::(?P<test>(?!test_any_two)\w+)"
    r"\[(?P<run>[a-z]+/(?:at-least-once-with-ids|exactly-once|at-most-once)(?:/[a-z]+)?)(?=[-\]])"
)
"""A test of one engine with one guarantee."""
OF_ENGINES = {"memory": ("memory_mb", "MB"), "events": ("events_per_cpu_s", "per CPU-s")}
"""What stands before ` of ENGINE` in a figure: the key of the record, and the unit."""
BESIDE = " beside a process that kept one core busy"
SENDER_LATE = "not counted: the sender was late"
BENCHED = "fraud"
"""The use whose patterns show what an engine costs."""
BACK_WITHIN_S = {"flink-taskmanager": 10, "kafka-1": 15, "flink-jobmanager": 30, "job of Flink": 30, "job of Spark": 30}
"""The goals for what is killed while nobody watches: until the first new output."""
OF_LOST_STATE = ("alerts absent for lost state", "alerts that rest on lost state")
MEASURED_LINE = re.compile(r"\n\n\*(?:Measured|Not measured)[^\n]*\*(?=\n|$)")
OUTCOME = "\n## Outcome\n"
"""The heading below which a page reports what a drill has found."""


@dataclass(frozen=True)
class Mention:
    """A link of a document to a record."""

    document: str
    line: int
    text: str
    record: str


def documents(project: Path) -> list[Path]:
    return [path for pattern in ("*.md", "docs/**/*.md", "terraform/**/*.md") for path in sorted(project.glob(pattern))]


def records_of(project: Path) -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in sorted((project / "docs" / "records").glob("*.json"))}


def mentions(project: Path) -> Iterator[Mention]:
    """Every link to a record, in the order of documents and lines."""
    for path in documents(project):
        text = path.read_text()
        for found in LINK.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield Mention(str(path.relative_to(project)), line, _one_line(found[1]), found[2])


def rewrite(project: Path) -> list[str]:
    """Brings every document up to date with docs/records; returns the names of those that changed."""
    records, changed = records_of(project), []
    for path in documents(project):
        name, before = str(path.relative_to(project)), path.read_text()
        after = rewritten(name, before, records)
        if after != before:
            path.write_text(after)
            changed.append(name)
    return changed


def rewritten(document: str, text: str, records: Records) -> str:
    """The text with the figures, sentences and lines of commit and date that the records give it."""

    def link(found: re.Match[str]) -> str:
        try:
            return found[0].replace(found[1], _kept_if_equal(found[1], figure(found[1], records.get(found[2]))), 1)
        except InfraError as error:
            raise InfraError(f"{document}: [{_one_line(found[1])}] of docs/records/{found[2]}.json: {error}") from None

    # First what is written as a whole: a table without its record links to it by a text that is no figure of it.
    for pattern, sentence in SENTENCES.get(document, {}).items():
        for found in re.findall(pattern, text):
            text = text.replace(found, _kept_if_equal(found, sentence(records)))
    text = LINK.sub(link, text)
    return with_measured_lines(text, records)


def without_figures(text: str) -> str:
    """What a measurement does not write: a document without its figures, and without what comes below its outcome."""
    return MEASURED_LINE.sub("", LINK.sub("", text.partition(OUTCOME)[0]))


def figure(text: str, record: Mapping[str, Any] | None) -> str:
    """A link's text with the value of its record; a text without a number stays."""
    found = FIGURE.fullmatch(_one_line(text))
    if found is None:
        if re.search(r"\d", text):
            raise InfraError("write a figure as `<latency> 3 / 84 ms`, `77 s`, `7 min 27 s` or `not measured`")
        return text
    is_new = found["value"] == NOT_MEASURED
    value = NOT_MEASURED if record is None else _value(found["label"], record["figures"], is_new=is_new)
    return f"{found['label']} {value}" if found["label"] else value


def with_measured_lines(text: str, records: Records) -> str:
    """A line below each paragraph or table with links to records: where they were measured, and when."""
    parts = re.split(r"(\n{2,})", MEASURED_LINE.sub("", text))
    return "".join(_with_measured_line(part, records) for part in parts)


def measured_line(linked: list[str], records: Records) -> str:
    """`*Measured at 0b94cfe, 2026-11-21; ...*`, or by the names of the records where they differ.

    How long the machines took for the same steps says which figures can be compared.
    """
    groups: dict[str, list[str]] = {}
    for name in linked:
        groups.setdefault(_origin(records.get(name)), []).append(name)
    there = [records[name] for name in linked if name in records]
    if not there:
        return "*Not measured yet.*"
    if len(groups) == 1:
        return f"*Measured {next(iter(groups))}{_pace(there)}.*"
    return f"*Measured: {'; '.join(f'{_listed(group)} {origin}' for origin, group in groups.items())}{_pace(there)}.*"


def rounds_of_the_drill(records: Records) -> str:
    rounds = records["airflow-drill"]["figures"]["rounds"]
    hits = [each for each in rounds if each["during"] == "running" and each["killed"]]
    return f"{len(rounds)} rounds, {len(hits)} of them while `deploy` ran"


def patterns_that_kept_their_promise(records: Records) -> str:
    benches = {name: records[f"bench-{name}"]["figures"] for name in names() if f"bench-{name}" in records}
    kept = [f"`{name}`" for name, figures in benches.items() if figures["promises"] == "kept"]
    return f"In these records it was kept by {_listed(kept) or 'none'};"


def paces_of_the_sender(records: Records) -> str:
    """How fast one process sends generated traffic, and a recorded file, in how much memory."""
    if not {"sender", "replay"} <= records.keys():
        return f"One process sends {NOT_MEASURED}."
    sent, replayed = records["sender"]["figures"], records["replay"]["figures"]
    return (
        f"One process sends {sent['run']['rate_per_s']:,.0f} generated messages a second, at p99 "
        f"{sent['run']['behind_ms']['p99_ms']:.0f} ms behind its plan, and replays a log of "
        f"{replayed['run']['sent']:,} lines at {replayed['run']['rate_per_s']:,.0f} a second in "
        f"{replayed['memory_mb']} MB of memory."
    )


def back_after_kills(records: Records) -> str:
    """How long each kind of kill stopped the output, beside its goal."""
    took = {name: figure(f"{name} {NOT_MEASURED}", records.get("watch")) for name in BACK_WITHIN_S}
    each = (f"[{took[name]}](docs/records/watch.json), goal {goal_s} s" for name, goal_s in BACK_WITHIN_S.items())
    return f"Time from then to the first new output: {'; '.join(each)}."


def open_pages(records: Records) -> str:
    """What open pages change, and the memory of their server."""
    if "pages" not in records:
        return f"Open pages change the stream's p99 by an amount that is {NOT_MEASURED}."
    found = records["pages"]["figures"]
    memory_mb = found["memory_mb"]
    return (
        f"Open pages, {found['pages']} of them, change the stream's p99 at {found['rate_per_s']:,} events a second by "
        f"{found['change_ms']:.0f} ms, where stretches without a page differ by {found['noise_ms']:.0f} ms, and "
        f"their server has {memory_mb['second quarter']:.0f} MB in the second quarter of "
        f"{found['seconds'] // 60} minutes, {memory_mb['last quarter']:.0f} MB in the last."
    )


def runs_in_a_row(records: Records) -> str:
    """How long the runs of all tests took, one after the other, and those of them beside a busy core."""
    runs = records.get("tests-five", {"figures": {"runs": []}})["figures"]["runs"]
    if not runs:
        return f"Runs in a row: [{NOT_MEASURED}](records/tests-five.json)"
    alone, beside = (sorted(each["seconds"] for each in runs if each["busy"] is busy) for busy in (False, True))
    took = [f"{_took(own[0])} to {_took(own[-1])}{where}" for own, where in ((alone, ""), (beside, BESIDE)) if own]
    return f"Runs in a row: {len(runs)} were green, in {' and in '.join(took)}: [record](records/tests-five.json)"


def hour_of_fuzzing(records: Records) -> str:
    """What the fuzzer tried in its time, and how many tests it broke."""
    if "fuzz" not in records:
        return f"An hour of it: [{NOT_MEASURED}](docs/records/fuzz.json)"
    found = records["fuzz"]["figures"]
    return (
        f"In {found['minutes']:.0f} minutes it ran property tests {found['properties']:,} times, each with up to 1,000 "
        f"new examples, and {found['rounds']} rounds on the engines; {len(found['found']) or 'none'} failed: "
        "[record](docs/records/fuzz.json)"
    )


def shapes(records: Records) -> str:
    """A row for each shape of a pattern, a column for each engine: a claim is a yes once a test that plays it passed.

    The suite refuses a claim that nothing plays; one that is newer than the record is not shown yet.
    """
    engines, passed = manifests(), records.get("tests", {"figures": {"tests": {}}})["figures"]["tests"]

    def cell(engine: Manifest, shape: str) -> str:
        if shape not in engine.can:
            return f"no: {engine.cannot[shape]}"
        return "yes" if shown(engine.name, shape, passed) else "claimed, and shown by no test of the record"

    rows = ([what, *(cell(each, shape) for each in engines)] for shape, what in SHAPES.items())
    return _table(["a pattern may have", *(each.title for each in engines)], rows)


def engines_of(name: str, _: Records) -> str:
    """The first cells of a pattern's row: the engines of its stages."""
    stages = load(name).pattern.stages
    events, windows = (manifest(each.engine).title if each else "none" for each in (stages.events, stages.windows))
    return f"| `{name}` | {events}{', in real time' if stages.events.real_time else ''} | {windows} |"


def loads(records: Records) -> str:
    """What the bench of an engine's own pattern measured; of one that has windows behind it, if that alone was."""
    engines = manifests()
    of = {each.name: next(_benches(each.name, records)) for each in engines}

    def row(what: str, label: Callable[[Manifest], str]) -> list[str]:
        return [what, *(f"[{label(each)} {NOT_MEASURED}](records/{of[each.name]}.json)" for each in engines)]

    rows = [
        row("alerts, p50 / p99", lambda _: "alerts"),
        row("the hop beside them", lambda _: "hop"),
        row("events per second of processor time", lambda each: f"events of {each.name}"),
        row("memory", lambda each: f"memory of {each.name}"),
        row("start", lambda _: DEPLOY),
    ]
    return _table(["measured", *(f"{each.title} (`{of[each.name].removeprefix('bench-')}`)" for each in engines)], rows)


def delays(records: Records) -> str:
    """What the bench of each pattern measured: alerts beside the hop of the same run, and how late windows alert."""
    rows = []
    for name in names():
        if f"bench-{name}" in records:
            timed = {each["name"]: each for each in records[f"bench-{name}"]["figures"]["latencies"] if each["count"]}
            alerts, hop, windows = (timed.get(each) for each in ("alerts", "hop", "windows"))
            times = f"{alerts['p99_ms'] / hop['p99_ms']:.1f}" if alerts and hop and hop["p99_ms"] else ""
            late = windows and f"{windows['p50_ms'] / 1000:.1f} / {windows['p99_ms'] / 1000:.1f} s"
            rows.append(
                [f"[`{name}`](records/bench-{name}.json)", *map(_or_none, (alerts, hop)), times, late or "none"]
            )
    return _table(["pattern", "alerts, p50 / p99", "the hop", "times the hop, p99", "alerts on windows"], rows)


def _or_none(found: Mapping[str, Any] | None) -> str:
    return _between(found) if found else "none"


def _benches(engine: str, records: Records) -> Iterator[str]:
    """The benches of patterns of one use whose per-event stage runs on an engine: the engine's own first."""
    own = [each for each in load_all() if each.pattern.stages.events.engine == engine and each.use.name == BENCHED]
    own.sort(key=lambda each: (each.name != engine, each.name))
    yield from (f"bench-{each.name}" for each in own if f"bench-{each.name}" in records)
    yield f"bench-{engine}"


def conformance(records: Records) -> str:
    """How many tests of the conformance suite passed, by engine and guarantee."""
    passed = Counter(
        (found["run"], found["test"] == "test_it_satisfies")
        for test in records.get("tests", {"figures": {"tests": {}}})["figures"]["tests"]
        if (found := CONFORMANCE.match(test))
    )
    runs = sorted({run for run, _ in passed})
    rows = ([run, str(passed[run, True]), str(passed[run, False])] for run in runs)
    return _table(
        ["engine, guarantee, state", "scenarios", "checks of the tape"], rows if runs else [[NOT_MEASURED] * 3]
    )


def kills(records: Records) -> str:
    """What the verdict counted after a process of Storm was killed, with each guarantee."""
    found = records.get("storm-kills", {"figures": {}})["figures"].get("killed", {})
    head = ["accepted", "copies", "events lost", "alerts lost", *OF_LOST_STATE]
    rows = [
        [f"[{guarantee}](records/storm-kills.json)", killed, *(f"{counted[figure]}" for figure in head)]
        for killed, guarantees in found.items()
        for guarantee, counted in guarantees.items()
    ]
    empty = [f"[{NOT_MEASURED}](records/storm-kills.json)", *[""] * (len(head) + 1)]
    return _table(["guarantee", "killed", *head], rows or [empty])


def long_runs(records: Records) -> str:
    """What the verdict counted of each variant's long run."""
    found = records.get("long-runs", {"figures": {"variants": {}}})["figures"]["variants"]
    head = ["accepted", "copies", "events lost", "alerts lost", "alerts of others", "back after s"]
    rows = [
        [f"[`{name}`](records/long-runs.json)", *(f"{run[figure]:,}" for figure in head)] for name, run in found.items()
    ]
    empty = [f"[{NOT_MEASURED}](records/long-runs.json)", *[""] * len(head)]
    return _table(["variant, its worker killed", *head], rows or [empty])


def spoilings(records: Records) -> str:
    """How many spoilings of each variant's run were noticed: a record is of runs with all of them."""
    found = records.get("self-test", {"figures": {"noticed": {}}})["figures"]["noticed"]
    rows = [[f"[`{name}`](records/self-test.json)", str(noticed)] for name, noticed in found.items()]
    return _table(["variant, its run spoilt", "noticed"], rows or [[f"[{NOT_MEASURED}](records/self-test.json)", ""]])


def costs(measured: Mapping[str, str], against: str, records: Records) -> str:
    """The processor time of a message by the declared rules, and by the side that they are measured against.

    `measured` has the records, each with the rules that it is of.
    """
    titles = {each.name: each.title for each in manifests()}
    rows = []
    for record, rules in measured.items():
        named = {name: f"{title}{rules and f', {rules}'}" for name, title in titles.items()}
        rows += _costs(record, against, named, records) or [_not_measured(record, rules)]
    return _table(["processor time of a message", "declared", against, "ratio, and its range"], rows)


def costs_in_python(records: Records) -> str:
    """The same of Spark's memory, in both ways in Python."""
    sides = {"in-python": "in Python", "in-buckets": "in Python by bucket"}
    rows = []
    for name, side in sides.items():
        record = f"../records/cost-spark-{name}"
        rows += _costs(record, side, {"spark": side}, records) or [_not_measured(record, side)]
    return _table(["processor time of a message", "in Java", "in Python", "ratio, and its range"], rows)


def _not_measured(record: str, what: str) -> list[str]:
    return [f"[{what and f'{what}: '}{NOT_MEASURED}]({record}.json)", *[""] * 3]


def _costs(record: str, against: str, titles: Mapping[str, str], records: Records) -> list[list[str]]:
    return [
        [
            f"[{titles[name]}]({record}.json)",
            *(f"{found['cpu_us_per_message'][side]['median']:.0f} µs" for side in ("declared", against)),
            f"{found['ratio']['median']:.2f} ({found['ratio']['least']:.2f} to {found['ratio']['most']:.2f})",
        ]
        for name, found in records.get(Path(record).name, {"figures": {}})["figures"].items()
    ]


def paces(records: Records) -> str:
    """How Spark's per-event stage keeps up with live traffic, by where its memory is."""
    found = records.get("pace-spark-in-python", {"figures": {}})["figures"]
    if not found:
        return _table(["live traffic", f"[{NOT_MEASURED}](../records/pace-spark-in-python.json)"], [])
    timed = {side: {each["name"]: each for each in own["latencies"]} for side, own in found.items()}
    rows = [
        ["events a second", *(f"{own['run']['rate_per_s']:,.0f}" for own in found.values())],
        *(
            [f"{name}, p50 / p99", *(_between(own[name]) if name in own else SENDER_LATE for own in timed.values())]
            for name in ("alerts", "enriched", "hop")
        ),
        ["a batch, p50 / p99", *(_between(own["batches"]) for own in found.values())],
        ["rows in a second of a batch", *(f"{own['batches']['rows_per_s']:,}" for own in found.values())],
        [
            "events per second of processor time",
            *(f"{own['events_per_cpu_s'].get('spark', NOT_MEASURED)}" for own in found.values()),
        ],
    ]
    return _table(["live traffic", *(f"[{side}](../records/pace-spark-in-python.json)" for side in found)], rows)


def _between(found: Mapping[str, Any]) -> str:
    return f"{found['p50_ms']:.0f} / {found['p99_ms']:.0f} ms" if found["count"] else NOT_MEASURED


def profiles(record: str, against: str, records: Records, *, of: str = "") -> str:
    """What the processor time of a message is spent on, by the declared rules and by what they are measured against."""
    titles = {each.name: each.title for each in manifests()}
    found = records.get(Path(record).name, {"figures": {}})["figures"]
    sides = [(name, side) for name in found for side in ("declared", against)]
    layers = Counter[str]()
    for name, side in sides:
        layers.update(found[name]["samples"][side])

    def us(layer: str, name: str, side: str) -> str:
        samples = found[name]["samples"][side]
        share = samples.get(layer, 0) / sum(samples.values())
        return f"{share * found[name]['cpu_us_per_message'][side]['median']:.1f}"

    rows = [[layer, *(us(layer, *each) for each in sides)] for layer, _ in layers.most_common()]
    head = [f"{titles[name]}, {side}" for name, side in sides] or [NOT_MEASURED]
    return _table([f"µs of a message{of}", *(f"[{each}]({record}.json)" for each in head)], rows)


def memory_of_hours(records: Records) -> str:
    """The memory of each process of a stack in the quarters of a run that lasts for hours."""
    found = records.get("endless", {"figures": {"quarters_mb": {}}})["figures"]["quarters_mb"]
    rows = {name: [*map(str, mb)] for name, mb in found.items()} or {NOT_MEASURED: [""] * 4}
    return _table(
        ["MB of memory", "first quarter", "second", "third", "last"], ([name, *mb] for name, mb in rows.items())
    )


def memory_of_millions(records: Records) -> str:
    """The memory of a ledger in the quarters of ten million messages."""
    found = records.get("segments", {"figures": {"quarters_mb": ["", "", "", ""]}})["figures"]["quarters_mb"]
    name = "the ledger" if "segments" in records else NOT_MEASURED
    head = ["MB of memory, ten million messages", "first quarter", "second", "third", "last"]
    return _table(head, [[name, *map(str, found)]])


def sizes(_: Records) -> str:
    """How long the folder of each engine is, to the nearest hundred lines; the kernel is that of all."""
    folders = {each.title: PROJECT / each.package.replace(".", "/") for each in manifests()}
    folders["shared by all: the kernel"] = PROJECT / "millrace" / "kernel"
    rows = ([title, *(_lines(folder, suffix) for suffix in (".py", ".java"))] for title, folder in folders.items())
    return _table(["folder", "lines of Python", "lines of Java"], rows)


def _lines(folder: Path, suffix: str) -> str:
    return f"{round(sum(len(path.read_text().splitlines()) for path in folder.rglob(f'*{suffix}')), -2):,}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


SENTENCES: dict[str, dict[str, Callable[[Records], str]]] = {
    "README.md": {
        r"In these records it\s+was kept by\s[^;]*;": patterns_that_kept_their_promise,
        r"One process\s+sends\s[^.]*\.": paces_of_the_sender,
        r"Time\s+from\s+then\s+to\s+the\s+first\s+new\s+output:\s[\s\S]*?\d s\.": back_after_kills,
        **{rf"\| `{name}` \|[^|]*\|[^|]*\|": partial(engines_of, name) for name in names()},
    },
    "CONTRIBUTING.md": {r"(?:An\s+hour\s+of|In\s+\d+\s+minutes)\s+it[^(]*\([^)]*\)": hour_of_fuzzing},
    "docs/engines.md": {
        r"\| a pattern may have \|.*(?:\n\|.*)*": shapes,
        r"\| measured \|.*(?:\n\|.*)*": loads,
        r"\| pattern \|.*(?:\n\|.*)*": delays,
        r"\| engine, guarantee, state \|.*(?:\n\|.*)*": conformance,
        r"\| guarantee \| killed \|.*(?:\n\|.*)*": kills,
        r"\| variant, its worker killed \|.*(?:\n\|.*)*": long_runs,
        r"\| variant, its run spoilt \|.*(?:\n\|.*)*": spoilings,
        r"\| processor time of a message \|.*(?:\n\|.*)*": partial(
            costs, {"records/cost": "two rules", "records/cost-burst": "three rules"}, "by hand"
        ),
        r"\| µs of a message \|.*(?:\n\|.*)*": partial(profiles, "records/profile", "by hand"),
        r"\| µs of a message, three rules \|.*(?:\n\|.*)*": partial(
            profiles, "records/profile-burst", "by hand", of=", three rules"
        ),
        r"\| folder \|.*(?:\n\|.*)*": sizes,
    },
    "docs/decisions/0045-live-page.md": {r"Open\s+pages[^.]*\.": open_pages},
    "docs/decisions/0046-ledger.md": {
        r"\| MB of memory \|.*(?:\n\|.*)*": memory_of_hours,
        r"\| MB of memory, ten million messages \|.*(?:\n\|.*)*": memory_of_millions,
    },
    "docs/decisions/0066-spark-memory-in-python.md": {
        r"\| processor time of a message \|.*(?:\n\|.*)*": costs_in_python,
        r"\| live traffic \|.*(?:\n\|.*)*": paces,
    },
    "docs/decisions/0067-flink-on-stage.md": {
        r"\| processor time of a message \|.*(?:\n\|.*)*": partial(
            costs, {"../records/cost-flink-on-stage": ""}, "on Stage"
        ),
        r"\| µs of a message \|.*(?:\n\|.*)*": partial(profiles, "../records/profile-flink-on-stage", "on Stage"),
    },
    "docs/decisions/0069-samza.md": {
        r"\| processor time of a message \|.*(?:\n\|.*)*": partial(costs, {"../records/cost-on-samza": ""}, "on Samza"),
    },
    "docs/behaviours.md": {r"Runs\s+in\s+a\s+row:[^(]*\([^)]*\)": runs_in_a_row},
    "docs/airflow.md": {r"\d+\s+rounds,\s+\d+\s+of\s+them\s+while\s+`deploy`\s+ran": rounds_of_the_drill},
}
"""By document: what is computed from more than one record, and so is no link."""


def _value(label: str | None, figures: Mapping[str, Any], *, is_new: bool) -> str:
    """A figure that is new in its document may be missing in a record of several seconds."""
    what, _, engine = (label or "").partition(" of ")
    if what in OF_ENGINES:
        key, unit = OF_ENGINES[what]
        return f"{figures[key][engine]} {unit}" if engine in figures.get(key, {}) else NOT_MEASURED
    if "latencies" in figures and label != DEPLOY:
        named = {each["name"]: each for each in figures["latencies"]}
        if label not in named:
            raise InfraError(f"the record has no latency {label!r}; it has {', '.join(sorted(named))}")
        return f"{named[label]['p50_ms']:.0f} / {named[label]['p99_ms']:.0f} ms"
    if label == DEPLOY and "seconds" not in figures:
        return NOT_MEASURED
    if "seconds" not in figures:
        raise InfraError(f"the record has neither latencies nor seconds; it has {', '.join(sorted(figures))}")
    if isinstance(took := figures["seconds"], Mapping):
        if label not in took and is_new:
            return NOT_MEASURED
        if label not in took:
            raise InfraError(f"the record has no seconds of {label!r}; it has {', '.join(sorted(took))}")
        took = took[label]
    return _took(took)


def _took(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def _with_measured_line(block: str, records: Records) -> str:
    linked = LINK.findall(block)
    if not linked:
        return block
    body, names = block.rstrip("\n"), dict.fromkeys(name for _, name in linked)
    is_measured = not all(_one_line(text).endswith(NOT_MEASURED) for text, _ in linked)
    line = measured_line(list(names), records if is_measured else {})
    return f"{body}\n\n{line}{block[len(body) :]}"


def _origin(record: Mapping[str, Any] | None) -> str:
    return "not yet" if record is None else f"at {str(record['commit'])[:7]}, {record['at'][:10]}"


def _pace(records: list[Mapping[str, Any]]) -> str:
    steps_ms = sorted(round(ms) for each in records if (ms := each["machine"].get("million_steps_ms")))
    if not steps_ms:
        return ""
    shown = f"{steps_ms[0]}" if steps_ms[0] == steps_ms[-1] else f"{steps_ms[0]} to {steps_ms[-1]}"
    return f"; a million steps of Python took {shown} ms"


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _kept_if_equal(old: str, new: str) -> str:
    """An old text that is only wrapped otherwise stays."""
    return old if _one_line(old) == _one_line(new) else new


def _one_line(text: str) -> str:
    return " ".join(text.split())
