"""Files: the Parquet of a pattern holds every accepted event exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

from millrace.oracle import Origin
from millrace.patterns.parquet import hour_folder_of, hour_of
from millrace.rules.outputs import SOURCE, names
from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found
from millrace.verify.checks.stored import differing, least_wrong
from millrace.verify.evidence import FILES, Event, StoredRow, kinds_of, misfit, place_of


def files(case: Case) -> Found:
    """Missing, additional, repeated and wrong rows."""
    accepted = case.expected.accepted
    got: dict[Origin, Event] = {}
    counts: Counter[Origin] = Counter()
    homeless, misplaced = 0, []
    for row in case.evidence.stores[FILES]:
        if misfit(kinds_of(SOURCE), names(SOURCE), row) is not None:
            homeless += 1
            continue
        origin = case.source(row)
        counts[origin] += 1
        got[origin] = row
        misplaced += [f"{each}: {place_of(origin)}" for each in out_of_place(row, case.question.use.judged.time)]
    offenders = [f"missing: {place_of(origin)}" for origin in accepted if origin not in got]
    offenders += [f"extra: {place_of(origin)}" for origin in got if origin not in accepted]
    offenders += [f"{count} times: {place_of(origin)}" for origin, count in counts.items() if count > 1]
    for origin, row in (*got.items(), *_replaced(case)):
        if origin in accepted and (wrong := least_wrong(case, origin, partial(differing, case, row))):
            offenders.append(f"wrong: {place_of(origin)}: {', '.join(wrong)}")
    offenders += [f"{homeless} rows do not name the raw message that they come from"] if homeless else []
    offenders += [*misplaced, *case.evidence.wrong_files]
    return Found({"accepted": len(accepted), "rows": counts.total() + homeless}, offenders)


def _replaced(case: Case) -> Iterator[tuple[Origin, Event]]:
    """The rows that readers still see though they do not count: each is in a file that does."""
    for row in case.evidence.replaced:
        if misfit(kinds_of(SOURCE), names(SOURCE), row) is None:
            yield case.source(row), row


def out_of_place(row: Event, time: str | None) -> Iterator[str]:
    """The complaint about a row in the folder of another hour: a query of its hour does not find it."""
    at_ms = row.get(time or "")
    if isinstance(row, StoredRow) and isinstance(at_ms, int) and (there := hour_folder_of(row.path)) != hour_of(at_ms):
        yield f"in {there}, not in {hour_of(at_ms)}"


CHECKER = Checker("files", "Do the files hold every accepted event exactly once?", files, needs=(FILES,))
