"""Who requests what: crawlers and people with Zipf-distributed ips, and the documents of an archive."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, count
from string import ascii_lowercase

from ..events import DAY_MS, HOUR_MS
from ..groups import group_of
from .pace import PEOPLE_SHARE, people_at

CRAWLERS, PEOPLE, DOCUMENTS = 40, 4_000, 4_000
ZIPF = 1.1
QUIET_GROUP = 0
"""The group without everyday visitors, where attacks are alone; only where there are several groups."""

# Shares of all requests.
STATUSES = {200: 0.872, 304: 0.052, 301: 0.036, 404: 0.036, 206: 0.002, 500: 0.001, 503: 0.001}
_SIZES = {301: 243, 304: 0, 401: 486, 403: 298, 404: 336, 500: 535, 503: 323}  # of answers without a document
_BROWSERS = (*[""] * 17, "win", "win", "mac", "lin")


class Visitor:
    """A visitor with an ip, and the fields that are the same in all its requests."""

    __slots__ = ("browser", "group", "ip", "is_crawler", "json", "key", "noagent", "norefer")

    def __init__(self, ip: str, group: int, rng: random.Random, *, is_crawler: bool = False) -> None:
        self.ip, self.group, self.is_crawler = ip, group, is_crawler
        self.key = str(group).encode()
        self.browser = "" if is_crawler else rng.choice(_BROWSERS)
        self.norefer = int(is_crawler or rng.random() < 0.7)
        self.noagent = int(rng.random() < (0.3 if is_crawler else 0.05))
        shown = f'"{self.browser}"' if self.browser else "null"
        self.json = (
            f'{{"ip":"{ip}","group_id":"{group}","norefer":{self.norefer},"noagent":{self.noagent},'
            f'"crawler":{is_crawler:d},"browser":{shown},'
        )


class Document:
    """A document of the archive, and what is the same in all requests for it."""

    __slots__ = ("csv", "find", "idx", "json", "size")

    def __init__(self, rng: random.Random) -> None:
        cik = rng.randint(1_000, 1_700_000)
        accession = f"{rng.randint(1_000, 1_500_000):010d}-{rng.randint(1, 17):02d}-{rng.randint(1, 999_999):06d}"
        extention = rng.choice((".txt", ".txt", "-index.htm", "-index.htm", f"d{rng.randint(1, 999_999)}d10k.htm"))
        self.idx = int(extention == "-index.htm")
        self.find = rng.choice((0, 0, 0, 0, 1, 2, 9, 10))
        self.size = int(rng.lognormvariate(9.5, 1.6)) + 200
        self.json = (
            f'"zone":0,"cik":{cik},"accession":"{accession}","extention":"{extention}",'
            f'"idx":{self.idx},"find":{self.find},'
        )
        self.csv = f"0.0,{cik}.0,{accession},{extention}"

    def answered(self, code: int) -> int:
        """The bytes of an answer with this status."""
        return _SIZES.get(code, self.size)


@dataclass(frozen=True)
class Public:
    """Everyday visitors, from the most to the least frequent."""

    visitors: tuple[Visitor, ...]
    weights: tuple[list[float], ...]
    """Cumulative, for each hour of the day."""

    def drawn(self, at_ms: int, rng: random.Random, k: int) -> list[Visitor]:
        """The visitors of so many requests at a time of the day."""
        return rng.choices(self.visitors, cum_weights=self.weights[at_ms % DAY_MS // HOUR_MS], k=k)


@lru_cache(4)
def public(seed: int, groups: int) -> Public:
    """The everyday visitors of a plan, always the same ones."""
    rng = random.Random(f"visitors {seed}")
    ips = _everyday_ips(rng, groups)
    crawlers = [Visitor(*next(ips), rng, is_crawler=True) for _ in range(CRAWLERS)]
    people = [Visitor(*next(ips), rng) for _ in range(PEOPLE)]
    by_hour = (
        (*_zipf(CRAWLERS, 1 - PEOPLE_SHARE), *_zipf(PEOPLE, PEOPLE_SHARE * people_at(hour * HOUR_MS)))
        for hour in range(24)
    )
    return Public((*crawlers, *people), tuple(list(accumulate(weights)) for weights in by_hour))


def documents(seed: int) -> list[Document]:
    """The documents of a plan."""
    rng = random.Random(f"documents {seed}")
    return [Document(rng) for _ in range(DOCUMENTS)]


def attackers() -> Iterator[str]:
    """Endless ips that no everyday visitor has."""
    return _ips_of("198.18")


def closers() -> Iterator[str]:
    """Endless ips that neither visitors nor attackers have."""
    return _ips_of("198.19")


def is_quiet(group: int, groups: int) -> bool:
    """Whether a group has no everyday visitors."""
    return groups > 1 and group == QUIET_GROUP


def _everyday_ips(rng: random.Random, groups: int) -> Iterator[tuple[str, int]]:
    met: set[str] = set()
    while True:
        octets = [str(rng.randint(1, 197)), *(str(rng.randint(0, 255)) for _ in range(2))]
        ip = ".".join((*octets, "".join(rng.choices(ascii_lowercase[:10], k=3))))
        group = group_of(ip, groups)
        if ip not in met and not is_quiet(group, groups):
            met.add(ip)
            yield ip, group


def _ips_of(network: str) -> Iterator[str]:
    for number in count():
        rest, octet = divmod(number, 256)
        rest, last = divmod(rest, 26)
        first, middle = divmod(rest, 26)
        yield f"{network}.{octet}.{ascii_lowercase[first % 26]}{ascii_lowercase[middle]}{ascii_lowercase[last]}"


def _zipf(number: int, share: float) -> list[float]:
    weights = [rank**-ZIPF for rank in range(1, number + 1)]
    total = sum(weights)
    return [share * weight / total for weight in weights]
