"""HBase tables through its Thrift server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from millrace.errors import InfraError
from millrace.patterns.plan import table_of
from millrace.rules.layout import NOTHING_FORGOTTEN, Delete, Forgotten, by_call
from millrace.rules.tables import FORGOTTEN
from millrace.stores.changes import Change

if TYPE_CHECKING:
    from thriftpy2.thrift import TException

TIMEOUT_MS = 60_000
MUTATIONS_MOST = 2_000  # in one call
ROWS_MOST = 2_000  # in one call
FOREVER_S = 2**31 - 1
Families = Mapping[str, Mapping[str, Any]]
"""Column family -> its options, as happybase takes them."""


@dataclass(frozen=True)
class HBase:
    """An HBase by the address of its Thrift server."""

    host: str
    port: int

    def ensure(self, tables: Mapping[str, Families], *, plan: bool = False) -> list[Change]:
        """Create the tables that are missing; an existing one must have the column families."""
        with self.connection() as hbase:
            there = {name.decode() for name in hbase.tables()}
            changes = []
            for name, families in tables.items():
                if name not in there:
                    if not plan:
                        hbase.create_table(name, {family: dict(options) for family, options in families.items()})
                    changes.append(Change("table", name, "create", f"families {', '.join(families)}"))
                    continue
                present = {family.decode().rstrip(":"): is_ for family, is_ in hbase.table(name).families().items()}
                if lacking := families.keys() - present.keys():
                    raise InfraError(
                        f"HBase table {name} lacks the families {', '.join(sorted(lacking))}; tear the pattern down "
                        "with its data, or add them by hand"
                    )
                for family, options in families.items():
                    _require_retention(name, family, options, present[family])
                changes.append(Change("table", name, "keep"))
            return changes

    def remove(self, names: Sequence[str], *, plan: bool = False) -> list[Change]:
        """Drop tables and all they hold."""
        with self.connection() as hbase:
            there = {name.decode() for name in hbase.tables()}
            for name in there & set(names):
                if not plan:
                    hbase.delete_table(name, disable=True)
            return [Change("table", name, "remove" if name in there else "keep") for name in names]

    def scan(self, table: str, **bounds: Any) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
        """The rows of a table; `bounds` are those of happybase (row_prefix, limit, columns ...)."""
        with self.connection() as hbase:
            yield from hbase.table(table).scan(batch_size=ROWS_MOST, **bounds)

    def row(self, table: str, key: bytes) -> dict[bytes, bytes]:
        """One row; empty if it does not exist."""
        with self.connection() as hbase:
            found: dict[bytes, bytes] = hbase.table(table).row(key)
            return found

    def rows(self, table: str, keys: Sequence[bytes]) -> dict[bytes, dict[bytes, bytes]]:
        """Those of these rows that exist."""
        found: dict[bytes, dict[bytes, bytes]] = {}
        with self.connection() as hbase:
            for at in range(0, len(keys), ROWS_MOST):
                found |= dict(hbase.table(table).rows(list(keys[at : at + ROWS_MOST])))
        return found

    def forgotten(self, pattern: str) -> Forgotten:
        """The keys that were forgotten in the tables of a pattern."""
        name = table_of(pattern, FORGOTTEN)
        with self.connection() as hbase:
            if name.encode() not in hbase.tables():
                return NOTHING_FORGOTTEN
            return Forgotten.read(hbase.table(name).scan())

    def put(self, table: str, row: bytes, cells: Mapping[bytes, bytes]) -> None:
        """Write cells of one row."""
        with self.connection() as hbase:
            hbase.table(table).put(row, cells)

    def delete(self, pattern: str, deletes: Iterable[Delete]) -> None:
        """Delete from the tables of a pattern."""
        with self.connection() as hbase:
            for (table, timestamp), own in by_call(deletes).items():
                with hbase.table(table_of(pattern, table)).batch(timestamp, batch_size=MUTATIONS_MOST) as batch:
                    for each in own:
                        batch.delete(each.row, each.columns)

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """A connection whose errors name the address and the remedy."""
        # Here: happybase compiles its Thrift file on import, a fifth of the start of a verb that reads no table.
        import happybase
        from thriftpy2.protocol.exc import TProtocolException
        from thriftpy2.thrift import TException
        from thriftpy2.transport import TTransportException

        address = f"{self.host}:{self.port}"
        try:
            with closing(happybase.Connection(self.host, self.port, timeout=TIMEOUT_MS)) as hbase:
                yield hbase
        except (TTransportException, TProtocolException, OSError, EOFError) as error:
            raise InfraError(
                f"HBase does not answer at {address} ({type(error).__name__}); see `millrace status`"
            ) from None
        except TException as error:
            raise InfraError(f"HBase at {address} refused the request: {_refusal(error)}") from None


def _require_retention(table: str, family: str, wanted: Mapping[str, Any], present: Mapping[str, Any]) -> None:
    """Refuse a table that drops cells earlier or later than declared: the Thrift server cannot alter a table."""
    seconds, is_ = wanted.get("time_to_live", FOREVER_S), present["time_to_live"]
    if seconds != is_:
        raise InfraError(
            f"HBase table {table} keeps the cells of family {family} for {_span(is_)}, not {_span(seconds)}; "
            f"`alter '{table}', {{NAME => '{family}', TTL => {seconds}}}` in the HBase shell, or tear the pattern down "
            "with its data"
        )


def _span(seconds: int) -> str:
    return "ever" if seconds == FOREVER_S else f"{seconds} s"


def _refusal(error: TException) -> str:
    """The error of HBase without its stack trace, and the remedy."""
    message = getattr(error, "message", None) or str(error)
    text = message.decode("utf-8", errors="replace") if isinstance(message, bytes) else message
    why = next(iter(text.splitlines()), type(error).__name__)[:200]
    if "TableNotFoundException" in why:
        return f"{why}; `millrace provision PATTERN` creates its tables"
    return f"{why}; see `millrace logs hbase`"
