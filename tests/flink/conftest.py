"""What the tests of Flink share."""

import pytest

from infra.settings import Settings
from infra.target import Target


@pytest.fixture
def target(stack: Settings) -> Target:
    return Target.read(stack, {})
