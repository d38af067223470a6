"""The per-event stage hands to the kernel what its meaning needs: in Spark's own environment, without a server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millrace.engines.spark.tuning import BACKGROUND_NICE
from tests.spark.test_files import run

pytestmark = pytest.mark.builds


@pytest.fixture(scope="module")
def said() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("tests/spark/jobs/steps.py").stdout.splitlines()[-1])
    return found


def test_reference_data_is_looked_up_as_of_the_arrival(said: dict[str, Any]) -> None:
    assert set(said["looked up at"]) == {1_000}, "not the event's own time, and not the present"


def test_a_field_of_reference_data_may_be_taken_under_the_name_of_a_column_of_the_stage(said: dict[str, Any]) -> None:
    assert said["taken beside the clock"] == ["Ulm", "Ulm"]


def test_of_the_same_millisecond_side_streams_come_first_whatever_their_names(said: dict[str, Any]) -> None:
    assert said["streams"] == ["device-locations", "a"]


def test_a_key_or_a_measure_of_a_summary_may_be_called_window(said: dict[str, Any]) -> None:
    assert said["numbers"] == ["topic", "key", "value"]


def test_a_driver_gives_way_to_others_only_once_its_windows_have_begun(said: dict[str, Any]) -> None:
    assert said["priorities"] == [0, BACKGROUND_NICE]
