"""What the tables of a pattern hold about a key."""

from __future__ import annotations

import json
import socket
from typing import Any

from millrace.dashboard.shown import text
from millrace.errors import InfraError
from millrace.patterns import Variant
from millrace.target import Target
from millrace.verbs import show

EVENTS_SHOWN = 20
CONNECTS_WITHIN_S = 1


class History:
    """Reads HBase for one key at a time."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def of(self, variant: Variant, key: str) -> tuple[dict[str, Any] | None, str]:
        """The key's state, alerts and latest events, or why they cannot be read; neither where no table is written."""
        use = variant.use
        table = next((each for each in use.tables if each.called and each.first == use.judged.key), None)
        if table is None or not show.writes_tables(variant):
            return None, ""
        hbase = self._target.hbase
        try:
            # Its client waits long for a server that is gone.
            socket.create_connection((hbase.host, hbase.port), timeout=CONNECTS_WITHIN_S).close()
            found = show.show_called(self._target, variant, table, key, EVENTS_SHOWN)
        except (InfraError, OSError) as error:
            return None, f"HBase does not answer: {error}; see `millrace status`"
        return text(json.loads(json.dumps(found, default=str))), ""
