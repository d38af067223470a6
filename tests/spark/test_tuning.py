from dataclasses import replace

import pytest

from millrace.engines.spark.engine import Spark
from millrace.engines.spark.tuning import LOCAL, master_for
from millrace.patterns import EnginePlan, Stores, engine_plans, load
from millrace.settings import Settings


def plan_of(pattern: str) -> EnginePlan:
    plans = engine_plans(load(pattern), 1, "kafka:9092", "file:///c", Stores("", "", 0, ""))
    return next(each for each in plans if each.engine == "spark")


@pytest.mark.parametrize(("pattern", "master"), [("spark", "local[4]"), ("flink-spark", "local[2]")])
def test_a_driver_without_a_cluster_runs_more_tasks_at_once_where_it_judges_events(pattern, master):
    assert master_for(LOCAL, plan_of(pattern)) == master


def test_in_real_time_each_partition_has_a_task_and_the_other_queries_have_as_many_as_ever():
    assert plan_of("flood-spark-realtime").partitions == 2
    assert master_for(LOCAL, plan_of("flood-spark-realtime")) == "local[6]"
    assert master_for(LOCAL, plan_of("flood-spark")) == "local[4]"


@pytest.mark.parametrize(
    ("master", "partitions", "is_refused"),
    [(LOCAL, 60, False), (LOCAL, 61, True), ("spark://127.0.0.1:7077", 61, False)],
)
def test_more_partitions_than_one_process_reads_in_real_time_are_refused_with_the_remedy(
    tmp_path, master, partitions, is_refused
):
    spark = Spark(Settings.read({"MILLRACE_STATE": str(tmp_path)}), master)
    plan = replace(plan_of("flood-spark-realtime"), partitions=partitions)
    assert bool(refusal := spark.refusal(plan)) is is_refused
    assert not is_refused or "makes 65 with partitions: 61, and a driver without a cluster runs at most 64" in refusal
    assert spark.refusal(replace(plan_of("flood-spark"), partitions=256)) == ""


@pytest.mark.parametrize("master", ["spark://spark.example.net:7077", "yarn"])
def test_a_cluster_whose_executors_cannot_reach_the_driver_is_refused(tmp_path, master):
    spark = Spark(Settings.read({"MILLRACE_STATE": str(tmp_path)}), master)
    refusal = spark.refusal(plan_of("flood-spark"))
    assert f"SPARK_MASTER is {master}" in refusal
    assert "spark://127.0.0.1:PORT" in refusal


@pytest.mark.parametrize(("named", "given"), [("", None), ("loader", "loader")])
def test_a_driver_writes_as_the_user_whom_the_target_names(tmp_path, monkeypatch, named, given):
    environments = []
    monkeypatch.setattr("millrace.machine.processes.start", lambda _, __, env, *___, **____: environments.append(env))
    Spark(Settings.read({"MILLRACE_STATE": str(tmp_path)}), LOCAL, hdfs_user=named).start(plan_of("flood-spark"), None)
    assert [each.get("HADOOP_USER_NAME") for each in environments] == [given]


@pytest.mark.parametrize("given", ["local[1]", "spark://spark.example.net:7077", "yarn"])
def test_a_master_that_was_named_stays(given):
    assert master_for(given, plan_of("flood-spark-realtime")) == given
