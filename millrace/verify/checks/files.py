"""Files: the Parquet of a pattern holds every accepted event exactly once."""

from __future__ import annotations

from collections import Counter
from functools import partial

from millrace.verify.case import Case
from millrace.verify.checking import Checker, Found
from millrace.verify.checks.stored import differing, least_wrong
from millrace.verify.evidence import FILES, Event, Identity, identity_of


def files(case: Case) -> Found:
    """Missing, additional, repeated and wrong rows."""
    judged, accepted = case.question.use.judged, case.expected.accepted
    wanted = {identity_of(judged, event): origin for origin, event in accepted.items()}
    got: dict[Identity, Event] = {}
    counts: Counter[Identity] = Counter()
    for row in case.evidence.stores[FILES]:
        identity = identity_of(judged, row)
        counts[identity] += 1
        got[identity] = row
    offenders = [f"missing: {'/'.join(identity)}" for identity in wanted if identity not in got]
    offenders += [f"extra: {'/'.join(identity)}" for identity in got if identity not in wanted]
    offenders += [f"{count} times: {'/'.join(identity)}" for identity, count in counts.items() if count > 1]
    for identity, row in got.items():
        if identity in wanted and (wrong := least_wrong(case, wanted[identity], partial(differing, row))):
            offenders.append(f"wrong: {'/'.join(identity)}: {', '.join(wrong)}")
    return Found({"accepted": len(wanted), "rows": counts.total()}, offenders)


CHECKER = Checker("files", "Do the files hold every accepted event exactly once?", files, needs=(FILES,))
