"""What the tests of Flink share."""

import pytest

from millrace.settings import Settings
from millrace.target import Target


@pytest.fixture
def target(stack: Settings) -> Target:
    return Target.read(stack, {})
