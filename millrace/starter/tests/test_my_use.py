"""The scenarios of my-use, played to the oracle."""

import pytest

from millrace.testing import Scenario, played, scenarios


@pytest.mark.parametrize("scenario", scenarios("my-use"), ids=str)
def test_scenario(scenario: Scenario) -> None:
    assert played(scenario) == scenario.expected
