"""Which servers the verbs work on, and with what."""

import json
from pathlib import Path

import pytest

from infra.settings import PROJECT, Settings
from infra.target import Target

ELSEWHERE = {"FLINK_REST_URL": "http://flink:8081", "WEBHDFS_URL": "http://hdfs:9870"}


@pytest.mark.parametrize(
    ("given", "home"), [({"FLINK_HOME": "/opt/flink"}, "/opt/flink"), ({}, "/state/conf/flink")], ids=["given", "not"]
)
def test_jobs_for_other_servers_are_planned_with_the_flink_home_that_comes_with_them(given, home):
    settings = Settings(PROJECT, Path("/home"), Path("/state"), 26000)
    target = Target.read(settings, {"MILLRACE_TARGET": json.dumps(ELSEWHERE | given)})
    assert target.engine("flink").home == Path(home)
