import pytest

from millrace.engines.spark.tuning import LOCAL, master_for


@pytest.mark.parametrize(("judges_events", "master"), [(True, "local[4]"), (False, "local[2]")])
def test_a_driver_without_a_cluster_runs_more_tasks_at_once_where_it_judges_events(judges_events, master):
    assert master_for(LOCAL, judges_events=judges_events) == master


@pytest.mark.parametrize("given", ["local[1]", "spark://spark.example.net:7077", "yarn"])
def test_a_master_that_was_named_stays(given):
    assert master_for(given, judges_events=True) == given
