"""A stack of the profile `prometheus`: Flink and Spark serve figures of their own, and Prometheus reads them."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from millrace import deployments
from millrace import stack as stacks
from millrace.machine.processes import wait_until
from millrace.patterns import load, model
from millrace.registry import PROMETHEUS
from millrace.servers.dashboard import url
from millrace.settings import Settings
from millrace.stack.services import PAGE, needed
from millrace.target import Target
from millrace.verbs.deploy import deploy
from millrace.verbs.provision import provision
from millrace.verbs.teardown import teardown
from tests.conftest import settings_for_tests
from tests.dashboard.scraping import prometheus, results
from tests.patterns import own_patterns

pytestmark = [pytest.mark.stack, pytest.mark.drill, pytest.mark.timeout(900)]

PATTERN = "reporting"
OWN = {
    "flink": {"flink_taskmanager_Status_JVM_CPU_Time", "flink_jobmanager_numRunningJobs"},
    "spark": {"metrics_spark_"},
}
"""Names of figures of each engine, or how they begin."""
FOUND_WITHIN_S, PORT = 120, 90


@pytest.fixture(scope="module")
def stack(test_port_base: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """It runs the windows of a pattern on Spark, behind Flink."""
    folder = tmp_path_factory.mktemp("patterns")
    settings = settings_for_tests("reporters", test_port_base + 600)
    stacks.down(settings, purge=True)
    with own_patterns(folder, {PATTERN: {"of": "flink-spark", "stages": {"persist": None}}}):
        try:
            services = [*needed(load(PATTERN).engines, ()), PAGE]
            stacks.up(replace(settings, patterns=model.folders()[0]), services, [PROMETHEUS], report=print)
            target = Target.read(settings, {})
            provision(target, PATTERN)
            deploy(target, PATTERN, report=print)
            yield settings
            teardown(target, PATTERN, data=True)
        finally:
            stacks.down(settings, purge=True, report=print)


def targets(stack: Settings) -> list[dict[str, Any]]:
    """Where the page says that Prometheus finds figures."""
    with urllib.request.urlopen(f"{url(stack)}targets", timeout=10) as answer:
        found: list[dict[str, Any]] = json.load(answer)
        return found


def test_each_engine_serves_its_figures_on_loopback(stack: Settings) -> None:
    assert wait_until(lambda: len(targets(stack)) == 3, FOUND_WITHIN_S), targets(stack)
    names: dict[str, set[str]] = {}
    for each in targets(stack):
        (place,), labels = each["targets"], each["labels"]
        with urllib.request.urlopen(f"http://{place}{labels['__metrics_path__']}", timeout=10) as answer:
            families = text_string_to_metric_families(answer.read().decode())
            names.setdefault(labels["engine"], set()).update(family.name for family in families)
    for engine, wanted in OWN.items():
        for name in wanted:
            assert any(each.startswith(name) for each in names[engine]), (name, sorted(names[engine])[:40])
    ports = {int(each["targets"][0].rpartition(":")[2]) for each in targets(stack)}
    listening = [one.laddr for one in psutil.net_connections(kind="inet") if one.status == psutil.CONN_LISTEN]
    assert {address.ip for address in listening if address.port in ports} <= {"127.0.0.1", "::ffff:127.0.0.1"}


def test_prometheus_finds_and_reads_them(stack: Settings, tmp_path: Path) -> None:
    port = stack.port_base + PORT
    with prometheus(port, stack.port("dashboard"), tmp_path, minute_s=1):

        def up() -> set[tuple[str, str]]:
            found = results(port, 'up{job="engines"} == 1')
            return {(each["metric"]["engine"], each["metric"].get("pattern", "")) for each in found}

        assert wait_until(lambda: up() == {("flink", PATTERN), ("spark", PATTERN)}, FOUND_WITHIN_S), up()
        assert results(port, "flink_jobmanager_numRunningJobs")[0]["value"][1] == "1"
    jobs = deployments.jobs(Target.read(stack, {}), PATTERN)
    assert all(job.metrics for _, job in jobs.values())
