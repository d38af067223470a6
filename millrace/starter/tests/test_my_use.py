"""The scenarios of my-use, played to the oracle, and the labels of its traffic."""

import pytest

from millrace.testing import Scenario, has_traffic, played, scenarios, untrue_labels


@pytest.mark.parametrize("scenario", scenarios("my-use"), ids=str)
def test_scenario(scenario: Scenario) -> None:
    assert played(scenario) == scenario.expected


@pytest.mark.skipif(not has_traffic("my-use"), reason="my-use declares no traffic")
def test_the_labels_of_its_traffic_are_true() -> None:
    assert untrue_labels("my-use") == []
