"""Which servers the verbs work on, and with what."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from millrace import stack
from millrace.errors import InfraError, UsageError
from millrace.settings import PROJECT, Settings
from millrace.stack.services import services
from millrace.target import Given, Target

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


@pytest.mark.parametrize(
    ("given", "use"),
    [
        ({"HBASE_THRIFT_HOST": "hbase", "HBASE_THRIFT_PORT": "9o90"}, lambda target: target.hbase),
        ({"STORM_NIMBUS": "nimbus"}, lambda target: target.engine("storm")),
    ],
    ids=["no number", "no port"],
)
def test_an_address_without_its_port_is_named(given: Mapping[str, str], use: Callable[[Target], object]) -> None:
    target = Target.read(SETTINGS, {"MILLRACE_TARGET": json.dumps(given)})
    with pytest.raises(InfraError, match=f"{list(given)[-1]} in MILLRACE_TARGET is .*, without the number of a port"):
        use(target)


def test_each_target_of_the_project_can_be_named() -> None:
    given = {path.stem: Given.read({"MILLRACE_TARGET": path.stem}) for path in (PROJECT / "infra").glob("*.yaml")}
    assert {name: (each.profiles, each.allow_traffic) for name, each in given.items()} == {
        "local": ((), True),
        "durable": (("durable",), True),
        "existing": (None, False),
    }
    addresses = given["existing"].addresses
    assert addresses is not None
    assert addresses.keys() < stack.addresses(SETTINGS).keys()
    services(SETTINGS, given["durable"].profiles or ())


def test_a_target_of_this_machine_has_its_stack_s_addresses() -> None:
    here = Target.read(SETTINGS, {"MILLRACE_TARGET": '{"stack": {}, "allow_traffic": false}'})
    assert (here.addresses, here.allow_traffic) == (Target.read(SETTINGS, {}).addresses, False)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("durabel", "No such file .*; write it with .* or name one of the project's infra/: durable, existing, local"),
        ('{"stack": {"profiles": []}, "KAFKA_BOOTSTRAP": "kafka:1"}', "its own servers; remove KAFKA_BOOTSTRAP"),
        ("[1", "cannot be read"),
        ('{"stack": ["durable"]}', "cannot be read"),
    ],
    ids=["unknown", "both", "no file", "no profiles"],
)
def test_a_target_that_cannot_be_used_is_refused_with_a_remedy(given: str, complaint: str) -> None:
    with pytest.raises(InfraError, match=complaint):
        Target.read(SETTINGS, {"MILLRACE_TARGET": given})
