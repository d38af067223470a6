"""What the tests of Kafka Streams share."""

import time

import pytest

from millrace.patterns import EnginePlan
from millrace.settings import Settings
from millrace.target import Target
from tests.flink.test_recovery import CUSTOMERS, HOUR_MS, SHOPS
from tests.player import Player


@pytest.fixture
def target(stack: Settings) -> Target:
    return Target.read(stack, {})


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
