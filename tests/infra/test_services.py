"""The named services are started, with all that they need."""

from pathlib import Path

import pytest

from millrace import deployments
from millrace.errors import InfraError
from millrace.patterns import load
from millrace.settings import Settings
from millrace.stack.form import refuse_another_form, remember
from millrace.stack.services import DEFAULT, PAGE, PROFILES, needed, servers_named, services, with_needs
from millrace.target import Target

HERE = Settings(Path("/project"), Path("/home/one"), Path("/state"), 21000)


def names(profiles: list[str], *asked: str) -> list[str]:
    return [server.name for service in with_needs(services(HERE, profiles), asked) for server in service.servers]


def test_kafka_stands_alone() -> None:
    assert names([], "kafka") == ["kafka-1"]


def test_flink_brings_the_hdfs_that_keeps_its_checkpoints() -> None:
    assert names([], "flink")[:3] == ["namenode", "datanode-1", "datanode-2"]


def test_spark_is_inside_its_jobs_without_the_profile_of_a_cluster() -> None:
    assert names([], "spark") == []
    assert names(["spark-cluster"], "spark") == ["spark-master", "spark-worker"]


def test_durable_means_three_brokers_and_an_hbase_in_parts_on_hdfs() -> None:
    assert names(["durable"], "kafka") == ["kafka-1", "kafka-2", "kafka-3"]
    assert set(names(["durable"], "hbase")) == {
        *("namenode", "datanode-1", "datanode-2"),
        *("zookeeper", "hbase-master", "hbase-regionserver", "hbase-thrift"),
    }


def test_a_service_that_is_named_twice_is_there_once() -> None:
    assert names([], "hdfs", "flink", "hdfs").count("namenode") == 1


def test_a_pattern_starts_the_servers_of_its_plan() -> None:
    assert names([], *needed(("spark",), ())) == ["kafka-1", "namenode", "datanode-1", "datanode-2"]
    flink = set(names([], *needed(load("flink").engines, load("flink").stores)))
    assert flink | {PAGE} == set(names([], *DEFAULT))
    assert "flink-jobmanager" not in names([], *needed(load("spark").engines, load("spark").stores))


@pytest.mark.parametrize("profile", [None, *PROFILES])
def test_every_need_is_met_within_the_services_that_are_needed(profile: str | None) -> None:
    known = services(HERE, [profile] if profile else [])
    for name in known:
        servers = [server for service in with_needs(known, [name]) for server in service.servers]
        there = {server.name for server in servers}
        assert {need for server in servers for need in server.needs} <= there


def test_a_drill_names_one_server_or_a_whole_service() -> None:
    known = services(HERE)
    assert [server.name for server in servers_named(known, ["datanode-1"])] == ["datanode-1"]
    assert [server.name for server in servers_named(known, ["hdfs"])] == ["namenode", "datanode-1", "datanode-2"]


@pytest.mark.parametrize("name", ["spark", "streams"])
def test_a_service_without_a_server_is_refused_and_stands_for_no_other(name: str) -> None:
    with pytest.raises(InfraError, match=f"{name} has no server here, only jobs"):
        servers_named(services(HERE), [name])


def test_a_misspelt_name_is_answered_with_the_one_that_is_meant() -> None:
    with pytest.raises(InfraError, match="did you mean 'kafka'"):
        names([], "kakfa")
    with pytest.raises(InfraError, match="choose one of: three-brokers, durable, prometheus, spark-cluster"):
        services(HERE, ["enormous"])


def test_another_kafka_is_refused_before_anything_starts_while_a_pattern_has_its_data_in_the_present_one(
    tmp_path: Path,
) -> None:
    target = Target.read(Settings.read({"MILLRACE_STATE": str(tmp_path)}), {})
    settings = target.settings
    remember(settings, ["prometheus"])
    (tmp_path / "data" / "kafka-1").mkdir(parents=True)
    three = services(settings, ["three-brokers"])
    refuse_another_form(settings, three, {})
    (plan,) = deployments.plans(target, load("spark"))
    with deployments.alone(target, "spark"):
        deployments.record(target, "spark", plan)
    (tmp_path / "patterns" / "spark-spark-progress.json").touch()
    with pytest.raises(
        InfraError, match=r"^spark: the data is in the Kafka of the stack with prometheus, .* --purge`$"
    ):
        refuse_another_form(settings, three, {})
    refuse_another_form(settings, services(settings), {})
    deployments.forget(target, "spark")
    refuse_another_form(settings, three, {})
