"""Runs of every variant on real servers, spoilt in every way that its declaration gives: a check notices each."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from millrace import records
from millrace.patterns import load, names
from millrace.settings import Settings
from millrace.target import Target
from millrace.verbs.self_test import self_test
from millrace.verbs.teardown import teardown
from tests.beside import beside, extra_services
from tests.pipelines.test_spoiling import SPOILINGS_LEAST
from tests.test_variants import Ran, deployed, run_of

pytestmark = [pytest.mark.stack, pytest.mark.drill, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def noticed() -> Iterator[dict[str, int]]:
    """How many spoilings of each variant's run were noticed; a record of those that were run."""
    found: dict[str, int] = {}
    yield found
    # Where lab/records.py looks for it, not in the folder of the tests' stack.
    records.append(Settings.read(os.environ), "self-test", {"noticed": found})


@pytest.fixture(params=[name for name in names() if load(name).use.traffic])
def ran(stack: Settings, request: pytest.FixtureRequest) -> Iterator[Ran]:
    variant = load(request.param)
    with beside(stack, extra_services(variant)):
        target = Target.read(stack, {})
        try:
            deployed(target, variant.name)
            yield run_of(target, variant)
        finally:
            teardown(target, variant.name, data=True)


def test_each_spoiling_of_a_run_on_real_servers_is_noticed_by_its_check(ran: Ran, noticed: dict[str, int]) -> None:
    assert ran.validation.verdict.status == "ok", [c for c in ran.validation.verdict.checks if c.status != "ok"]
    found = self_test(ran.target, ran.variant.name)
    assert found.missed == []
    assert len(found.outcomes) >= SPOILINGS_LEAST
    noticed[ran.variant.name] = len(found.outcomes)
