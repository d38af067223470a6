"""Alerts as a file for other programs: a row for each alert, a column for each operand."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from millrace.errors import InfraError, UsageError
from millrace.verbs.alerts import Found
from millrace.verbs.dispositions import Disposition
from millrace.whole_files import write_whole

CSV, PARQUET = ".csv", ".parquet"
TEXT, NUMBER, TIME = pa.string(), pa.int64(), pa.timestamp("ms", tz="UTC")
COLUMNS = {
    **dict.fromkeys(("alert_id", "rule", "rule_version", "key", "subject"), TEXT),
    "at": TIME,
    "at_ms": NUMBER,
    **dict.fromkeys(("event_ids", "sentence", "topic"), TEXT),
    **dict.fromkeys(("partition", "offset", "arrived_ms"), NUMBER),
    **dict.fromkeys(("mark", "marked_by", "note"), TEXT),
    "marked_ms": NUMBER,
}
OPERAND = "operand."
"""In front of an operand's name."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet takes a cell that begins so for a formula, and what is in it may come from a stranger's event."""


def suffix_of(file: Path) -> str:
    """What a file of alerts is written as."""
    if file.suffix not in (CSV, PARQUET):
        raise UsageError(f"--to {file}: the name of the file ends with {CSV} or {PARQUET}")
    return file.suffix


def export(found: Sequence[Found], marks: Mapping[str, Disposition], file: Path) -> None:
    """Write alerts to a CSV or a Parquet file, as its suffix names; it is there only once it is whole."""
    try:
        write_whole(file, content(found, marks, suffix_of(file)))
    except OSError as error:
        raise InfraError(f"{file} cannot be written: {error.strerror or error}") from None


def content(found: Sequence[Found], marks: Mapping[str, Disposition], suffix: str) -> str | bytes:
    """What a file with one of these two suffixes holds of alerts."""
    rows = [_row(each) | _marked(marks.get(each.alert["alert_id"])) for each in found]
    operands = dict.fromkeys(name for row in rows for name in row if name.startswith(OPERAND))
    columns = COLUMNS | dict.fromkeys(operands, TEXT)
    return _csv(columns, rows) if suffix == CSV else _parquet(columns, rows)


def _row(found: Found) -> dict[str, Any]:
    alert = found.alert
    named = {name: str(alert[name]) for name in ("alert_id", "rule", "rule_version", "key", "subject")}
    return {
        **named,
        "at": datetime.fromtimestamp(alert["at_ms"] / 1000, UTC),
        "at_ms": alert["at_ms"],
        "event_ids": " ".join(map(str, alert["event_ids"])),
        "sentence": found.sentence,
        "topic": found.topic,
        "partition": found.partition,
        "offset": found.offset,
        "arrived_ms": found.arrived_ms,
        **{f"{OPERAND}{name}": str(value) for name, value in (alert["operands"] or {}).items()},
    }


def _marked(made: Disposition | None) -> dict[str, Any]:
    return {"mark": made.mark, "marked_by": made.by, "note": made.note, "marked_ms": made.at_ms} if made else {}


def _parquet(columns: Mapping[str, pa.DataType], rows: list[dict[str, Any]]) -> bytes:
    content = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema(list(columns.items()))), content)
    return content.getvalue()


def _csv(columns: Iterable[str], rows: Iterable[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), restval="")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    if isinstance(value, str) and value.startswith(FORMULA) and not _is_number(value):
        return f"'{value}"
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
