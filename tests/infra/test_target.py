"""Which servers the verbs work on, and with what."""

import json
from pathlib import Path

import pytest

from millrace.errors import InfraError, UsageError
from millrace.settings import PROJECT, Settings
from millrace.target import Target

ELSEWHERE = {"FLINK_REST_URL": "http://flink:8081", "WEBHDFS_URL": "http://hdfs:9870"}


@pytest.mark.parametrize(
    ("given", "home"), [({"FLINK_HOME": "/opt/flink"}, "/opt/flink"), ({}, "/state/conf/flink")], ids=["given", "not"]
)
def test_jobs_for_other_servers_are_planned_with_the_flink_home_that_comes_with_them(given, home):
    settings = Settings(PROJECT, Path("/home"), Path("/state"), 26000)
    target = Target.read(settings, {"MILLRACE_TARGET": json.dumps(ELSEWHERE | given)})
    assert target.engine("flink").home == Path(home)


SETTINGS = Settings(PROJECT, Path("/home"), Path("/state"), 26000)
KAFKA = {"KAFKA_BOOTSTRAP": "kafka:9092"}


@pytest.mark.parametrize(
    ("environ", "is_allowed"),
    [
        ({}, True),
        ({"MILLRACE_TARGET": json.dumps(KAFKA)}, False),
        ({"MILLRACE_TARGET": json.dumps({"version": 1, "verb": "env", "addresses": KAFKA})}, False),
        ({"MILLRACE_TARGET": json.dumps(KAFKA | {"allow_traffic": False})}, False),
        ({"MILLRACE_TARGET": json.dumps(KAFKA | {"allow_traffic": True})}, True),
        ({"MILLRACE_TARGET": json.dumps({"addresses": KAFKA, "allow_traffic": True})}, True),
    ],
    ids=["this stack", "addresses", "what env prints", "not allowed", "allowed beside addresses", "allowed"],
)
def test_only_this_stack_and_what_allows_it_gets_traffic(environ: dict[str, str], is_allowed: bool) -> None:
    target = Target.read(SETTINGS, environ)
    assert target.allow_traffic is is_allowed
    assert "allow_traffic" not in target.addresses
    if is_allowed:
        target.require_traffic_allowed()
    else:
        with pytest.raises(UsageError, match=r'kafka:9092: .* add "allow_traffic": true to the target'):
            target.require_traffic_allowed()


@pytest.mark.parametrize("given", ["true", "yes", 1, None, ["true"]])
def test_an_allowance_that_is_neither_true_nor_false_is_refused(given: object) -> None:
    with pytest.raises(InfraError, match=r"allow_traffic is .*; give true or false"):
        Target.read(SETTINGS, {"MILLRACE_TARGET": json.dumps(KAFKA | {"allow_traffic": given})})
