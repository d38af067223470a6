"""Storm's servers beside the tests' stack, and what the tests of Storm share."""

import time
from collections.abc import Iterator

import pytest

from millrace.patterns import EnginePlan
from millrace.settings import Settings
from millrace.target import Target
from tests.beside import beside
from tests.flink.test_recovery import CUSTOMERS, HOUR_MS, SHOPS
from tests.player import Player


@pytest.fixture(scope="module")
def with_storm(stack: Settings) -> Iterator[Settings]:
    """The stack with Storm's servers, which no other test needs."""
    with beside(stack, ["storm"]):
        yield stack


@pytest.fixture(scope="module")
def target(with_storm: Settings) -> Target:
    return Target.read(with_storm, {})


@pytest.fixture
def player(plan: EnginePlan) -> Player:
    player = Player(plan)
    customers = [("customers", {"customer": name, "segment": "private"}) for name in CUSTOMERS]
    shops = [("merchants", {"merchant": name, "category": "food", "place": "Ulm"}) for name in SHOPS]
    player.references([*customers, *shops])
    return player


@pytest.fixture
def now_ms() -> int:
    return int(time.time() * 1000) - 3 * HOUR_MS
