"""Judges the files of each hour again, slice by slice: what they held when they were new, they hold for ever.

Of each folder the number of its rows is kept, and a sum of their digests. The rows of one folder after another are read
again. Nothing of a folder is compared while it changes.
"""

from __future__ import annotations

from array import array

from millrace.patterns.parquet import hour_folder_of
from millrace.verify.evidence import FILES, Event, StoredRow
from millrace.verify.ledger.state import Audit, Folder
from millrace.verify.ledger.step import ENRICHED_TAG, EVENT_BITS, NOTHING, Step


def begin(step: Step) -> None:
    """With other columns an event has another digest: of what was judged before, their values may be any from now on.

    Where the columns of the raw message are the same, its values are still compared.

    The next round of the audit takes over the rows that are there. So it does where files are judged from now on: then
    rows of what was judged before may be there, or not.
    """
    state, version = step.state, step.version_of_rows
    is_new = "hdfs" in step.question.stores and state.stored_since is None
    if is_new:
        state.began = {place: done.end for place, done in state.done.items()}
        state.stored_since = dict(state.began)
    elif "hdfs" not in step.question.stores:
        state.stored_since = None
    if is_new or state.assumed_since_ms == step.cut_ms:
        state.has_all_files = False
    is_other = state.folders_version != version
    if is_other:
        has_same_events = state.folders_version[:8] == version[:8]
        kept = EVENT_BITS if has_same_events else ENRICHED_TAG
        for done in state.done.values():
            forms = (each & kept if each & NOTHING == ENRICHED_TAG else each for each in done.digests)
            done.digests = array("Q", forms)
        state.varied.clear()
        state.forms.clear()
        if not has_same_events:
            state.flags.clear()
    if is_new or is_other:
        for folder in state.folders.values():
            folder.is_known = False
        state.audit = Audit(again=state.audit.again)
    state.folders_version = version


def note(step: Step, row: Event) -> None:
    """Count a row that its folder holds from now on."""
    if isinstance(row, StoredRow):
        folder = hour_folder_of(row.path)
        if folder not in step.state.folders:
            step.state.folders[folder] = Folder(is_known=step.state.has_all_files)
        step.state.folders[folder].add(step.row_digest(row))


def audit(step: Step) -> None:
    """Take in the next slice; at the end of a folder compare it with what it held."""
    state, part = step.state, step.inputs.slice
    if step.inputs.unread:
        step.unknown[FILES] = "; ".join(step.inputs.unread)
    if part is None:
        return
    if part.is_first:
        state.audit = Audit(part.folder, part.listing, again=state.audit.again)
        step.offenders[FILES] += part.foreign
    if state.audit.listing != part.listing:
        return  # it does not follow from what was read before
    is_known = _held(step, part.folder).is_known
    for row in part.rows:
        state.audit.found.add(step.row_digest(row))
        if not is_known and (wrong := step.undeclared(row)):
            step.offenders[FILES].append(f"wrong: {', '.join(wrong)}")
    state.audit.path, state.audit.row = part.following or ("", 0)
    step.audited += len(part.rows)
    if part.following is None:
        _compare(step, part.folder, state.audit.found)
        state.audit = Audit(part.folder, again=[each for each in state.audit.again if each != part.folder])


def _held(step: Step, name: str) -> Folder:
    return step.state.folders.get(name, Folder(is_known=step.state.has_all_files))


def _compare(step: Step, name: str, found: Folder) -> None:
    """Compare a folder with what it held; what is red is taken over, so that it is red once."""
    held = _held(step, name)
    more = found.rows - held.rows
    if not held.is_known:
        step.taken_over += 1
    elif more > 0:
        # A file may get its name very late: its writer was killed in between.
        step.unknown[FILES] = f"{name} holds {more} rows more than were read as they came"
    elif more < 0:
        step.offenders[FILES].append(f"{name} holds {found.rows} rows, no longer {held.rows}")
    elif found.total != held.total:
        step.offenders[FILES].append(f"{name} holds {found.rows} rows, but not those that it held")
    step.state.folders[name] = Folder(found.rows, found.total, is_known=True)
