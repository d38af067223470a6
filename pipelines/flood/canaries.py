"""The canaries of the flood use: a group in each partition that is attacked for a second and a half, every minute."""

from __future__ import annotations

from collections.abc import Iterator
from string import ascii_lowercase

from millrace.traffic import CANARY, Canaries, Message, Secrets, message

from .events import DISORDER_MS, REFUSED, SECOND_MS, requests
from .rules import HARMLESS, WINDOW_MS, flood_group, flood_ip

MARK = "00"  # the numbers of other groups have no zero in front
ATTACKS_FROM, VISITS_FROM = "203.0.113", "198.51.100"  # kept for documentation: nobody has an address in them
APART_MS = 40
MOVES_TIME_EVERY_MS = 20 * SECOND_MS


def messages(key: str, secrets: Secrets, start_ms: int, for_ms: int) -> Iterator[Message]:
    """So many refused requests in one window that both rules alert, then a served request now and then."""

    first, rest = divmod(int(key), 26 * 26)
    host = "".join(ascii_lowercase[letter] for letter in (first, *divmod(rest, 26)))

    def request(due_ms: int, network: str, code: int) -> Message:
        at_ms = start_ms + due_ms
        content = {
            **{"ip": f"{network}.{host}", "group_id": key, "at_ms": at_ms, "sent_ms": at_ms},
            **{"zone": 0, "cik": 1, "accession": "0000000001-00-000001", "extention": ".txt"},
            **{"code": code, "size": 0, "idx": 0, "norefer": 1, "noagent": 1, "find": 0, "crawler": 0},
        }
        return message(due_ms, requests.name, key, content, CANARY)

    begins_ms = -start_ms % WINDOW_MS
    for number in range(HARMLESS + 1):
        yield request(begins_ms + number * APART_MS, ATTACKS_FROM, REFUSED[0])
    yield request(begins_ms + WINDOW_MS + DISORDER_MS, VISITS_FROM, 200)  # the attack's window is complete
    for due_ms in range(MOVES_TIME_EVERY_MS, for_ms, MOVES_TIME_EVERY_MS):
        yield request(due_ms, VISITS_FROM, 200)


CANARIES = Canaries(marks={"group_id": MARK}, rules=(flood_ip.name, flood_group.name), messages=messages)
