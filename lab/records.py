"""The figures of the documents that are older than the code they measure; with --measure, they are measured again.

`python -m lab.records` (or `make records`) ends with 1 if there are any.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from lab.documents import Mention, mentions, records_of, rewrite, without_figures
from lab.measurements import MEASUREMENTS, Measurement
from millrace import records, stack
from millrace.errors import InfraError
from millrace.settings import Settings

Table = Mapping[str, Measurement]
SHOWN_PATHS = 3
DIRTY = "+changes"


@dataclass(frozen=True)
class Old:
    """A record that does not hold for this tree, with every place that links to it."""

    record: str
    commit: str | None
    date: str | None
    reason: str
    changed: list[str]
    """The measured files that differ from those of its commit."""
    places: list[Mention]


def old(project: Path, table: Table = MEASUREMENTS) -> list[Old]:
    """Every record that documents link to and that is not of this tree, in the order of the table."""
    refuse_shallow(project)
    places: dict[str, list[Mention]] = {}
    for mention in mentions(project):
        if mention.record not in table:
            raise InfraError(
                f"{mention.document}:{mention.line}: lab/measurements.py has no row {mention.record!r}; add one"
            )
        places.setdefault(mention.record, []).append(mention)
    there = records_of(project)
    found = [_judged(project, name, table[name], there.get(name), places[name]) for name in table if name in places]
    return [each for each in found if each.reason]


def refusal(project: Path, record: Mapping[str, Any]) -> str | None:
    """Why a record cannot be traced to a commit of this branch; None if it can."""
    commit = str(record["commit"] or "")
    if not commit:
        return "it was measured outside a git clone"
    if commit.endswith(DIRTY):
        return f"it was measured on a tree with changes that {commit[:7]} does not have"
    if not _succeeds(project, "cat-file", "-e", f"{commit}^{{commit}}"):
        return f"its commit {commit[:7]} is unknown to this repository"
    if not _succeeds(project, "merge-base", "--is-ancestor", commit, "HEAD"):
        return f"its commit {commit[:7]} is not in the history of HEAD"
    return None


def refuse_shallow(project: Path) -> None:
    if not _succeeds(project, "rev-parse", "--verify", "--quiet", "HEAD"):
        raise InfraError(f"{project} is not a git clone with a commit; records need its history")
    if _git(project, "rev-parse", "--is-shallow-repository").strip() == "true":
        raise InfraError(f"{project} is a shallow clone; records need its history: `git fetch --unshallow`")


def take(project: Path, name: str, record: Mapping[str, Any], table: Table = MEASUREMENTS) -> Path:
    """Copies a record to docs/records under a name of the table; the documents are rewritten separately."""
    if name not in table:
        raise InfraError(f"lab/measurements.py has no row {name!r}; it has {', '.join(table)}")
    if record["kind"] != table[name].kind:
        raise InfraError(f"docs/records/{name}.json: needs kind {table[name].kind!r}, not {record['kind']!r}")
    if reason := refusal(project, record):
        raise InfraError(f"docs/records/{name}.json: the new record is refused: {reason}; commit, then measure again")
    verdict = record["figures"].get("verdict", "ok")
    if verdict != "ok":
        raise InfraError(f"docs/records/{name}.json: the new record is refused: its verdict is {verdict!r}")
    if code := record["figures"].get("exit"):
        raise InfraError(f"docs/records/{name}.json: the new record is refused: the run ended with code {code}")
    path = project / "docs" / "records" / f"{name}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    return path


def measure(settings: Settings, names: Sequence[str], table: Table = MEASUREMENTS) -> None:
    """Runs the commands one after the other, then copies all records: a copy in between would make the tree dirty."""
    refuse_shallow(settings.project)
    if (records.commit(settings.project) or DIRTY).endswith(DIRTY):
        raise InfraError(
            f"{settings.project} has changes that are in no commit (`git status`); commit them first, "
            "because a record names the commit that it measured"
        )
    by_command: dict[str, list[str]] = {}
    for name in names:
        by_command.setdefault(table[name].command, []).append(name)
    for command, group in by_command.items():
        _say(f"{', '.join(group)}: about {_minutes(table, group)} min: {command}")
    _say(f"about {sum(_minutes(table, group) for group in by_command.values())} min in all; use a quiet machine")
    measured: dict[str, dict[str, Any]] = {}
    try:
        for command, group in by_command.items():
            measured |= _measured(settings, command, {name: table[name].kind for name in group})
    finally:  # what was measured before a failure or Ctrl-C is worth keeping
        for name, record in measured.items():
            _say(f"wrote {take(settings.project, name, record, table).relative_to(settings.project)}")
        if measured:
            _rewrite(settings.project)


def main(argv: Sequence[str]) -> int:
    given = _arguments(argv)
    settings = Settings.read(os.environ)
    try:
        if unknown := set(given.names) - set(MEASUREMENTS):
            raise InfraError(f"lab/measurements.py has no row {', '.join(sorted(unknown))}; see --help")
        if given.take:
            record = json.loads(given.take.read_text())
            _say(f"wrote {take(settings.project, given.names[0] if given.names else record['kind'], record)}")
        if given.take or given.write:
            _rewrite(settings.project)
            return 0
        found = [each for each in old(settings.project) if not given.names or each.record in given.names]
        if given.measure:
            names = given.names or [each.record for each in found]
            measure(settings, [name for name, row in MEASUREMENTS.items() if name in names and not row.is_by_hand])
            found = [each for each in old(settings.project) if each.record in names]
        print(json.dumps([_as_json(each) for each in found], indent=1) if given.json else _as_text(found))
    except InfraError as error:
        print(error, file=sys.stderr)
        return 2
    return 1 if found else 0


def _judged(
    project: Path, name: str, measurement: Measurement, record: Mapping[str, Any] | None, places: list[Mention]
) -> Old:
    if record is None:
        return Old(name, None, None, "not measured", [], places)
    reason, changed = refusal(project, record), list[str]()
    if reason is None and not measurement.is_of_decision:
        changed = _changed(project, record["commit"], measurement.paths)
        reason = f"measured files that have changed since: {len(changed)}" if changed else ""
    return Old(name, record["commit"], record["at"][:10], reason or "", changed, places)


def _changed(project: Path, commit: str, paths: Sequence[str]) -> list[str]:
    """The files that differ between a commit and the work tree; documents only where a path names them."""
    said = _git(project, "diff", "-z", "--name-only", "--no-renames", commit, "--", *paths)

    def counts(file: str) -> bool:
        if not file.endswith(".md"):
            return True
        return any(fnmatch(file, path) for path in paths) and _is_rewritten(project, commit, file)

    return [file for file in said.split("\0") if file and counts(file)]


def _is_rewritten(project: Path, commit: str, document: str) -> bool:
    """Whether a document differs in what `--measure` does not write."""
    now = project / document
    then = subprocess.run(["git", "-C", project, "show", f"{commit}:{document}"], capture_output=True, text=True)
    if not now.exists() or then.returncode != 0:
        return True
    return without_figures(then.stdout) != without_figures(now.read_text())


def _measured(settings: Settings, command: str, kinds: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    scratch = replace(settings, state=settings.state / "measuring")
    stack.down(scratch, purge=True)
    shutil.rmtree(scratch.state, ignore_errors=True)
    scratch.state.mkdir(parents=True)
    _say(f"+ {command}")
    environment = os.environ | {"MILLRACE_STATE": str(scratch.state), "SCRATCH": str(scratch.state)}
    process = subprocess.Popen(["sh", "-euc", command], cwd=settings.project, env=environment)
    try:
        code = process.wait()
    except KeyboardInterrupt:
        process.wait()  # Ctrl-C reached it, too; it stops what it started
        raise
    finally:
        stack.down(scratch, purge=True)
    found = {name: records.read(scratch, kind)[-1:] for name, kind in kinds.items()}
    missing = [name for name, newest in found.items() if not newest]
    if code or missing:
        left = f", without a record of {', '.join(missing)}" if missing else ""
        raise InfraError(f"`{command}` ended with code {code}{left}; its logs are in {scratch.state}")
    shutil.rmtree(scratch.state, ignore_errors=True)
    return {name: newest[0] for name, newest in found.items()}


def _rewrite(project: Path) -> None:
    for document in rewrite(project):
        _say(f"rewrote the figures of {document}; read the sentences around them")


def _minutes(table: Table, names: Sequence[str]) -> int:
    return max(table[name].minutes for name in names)


def _as_text(found: Sequence[Old]) -> str:
    if not found:
        return "Every figure of the documents was measured on this tree's code."
    return "\n\n".join(_paragraph(each) for each in found)


def _paragraph(each: Old) -> str:
    row = MEASUREMENTS[each.record]
    origin = f" ({each.commit[:7]}, {each.date})" if each.commit else ""
    more = len(each.changed) - SHOWN_PATHS
    changed = [*each.changed[:SHOWN_PATHS], *([f"and {more} more (--json lists them)"] if more > 0 else [])]
    lines = [f"{each.record}{origin}: {each.reason}"]
    lines += [f"  changed  {path}" for path in changed]
    lines += [f"  shown    {place.document}:{place.line}  {place.text}" for place in each.places]
    lines += [f"  {'by hand' if row.is_by_hand else 'measure'}  {row.command}  (about {row.minutes} min)"]
    return "\n".join(lines)


def _as_json(each: Old) -> dict[str, Any]:
    row = MEASUREMENTS[each.record]
    return asdict(each) | {"command": row.command, "minutes": row.minutes, "by_hand": row.is_by_hand}


def _succeeds(project: Path, *words: str) -> bool:
    return subprocess.run(["git", "-C", project, *words], capture_output=True).returncode == 0


def _git(project: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", project, *words], check=True, capture_output=True, text=True).stdout


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lab.records", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASUREMENTS)}; default: all")
    parser.add_argument("--json", action="store_true", help="the list as JSON, every changed file included")
    doing = parser.add_mutually_exclusive_group()
    doing.add_argument("--measure", action="store_true", help="measure what is listed, or NAME, and rewrite documents")
    doing.add_argument(
        "--take", type=Path, metavar="FILE", help="copy a record to docs/records as NAME, or as its kind"
    )
    doing.add_argument("--write", action="store_true", help="only rewrite the figures of the documents")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
