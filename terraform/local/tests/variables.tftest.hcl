run "a_stack_without_kafka" {
  command = plan
  variables {
    services = ["hdfs"]
  }
  expect_failures = [var.services]
}

run "a_pattern_whose_engine_is_not_started_by_default" {
  command = plan
  variables {
    patterns = ["storm-spark"]
  }
  assert {
    condition     = contains(local.services, "storm") && contains(local.services, "dashboard")
    error_message = "The services of the pattern should run: ${join(", ", local.services)}"
  }
}

run "the_default_services_alone" {
  command = plan
  assert {
    condition     = local.services == toset(module.declared.all.stack.default_services)
    error_message = "No service more than by default: ${join(", ", local.services)}"
  }
}

run "no_service_more_than_its_pattern_needs" {
  command = plan
  variables {
    patterns = ["flood-streams"]
    services = ["hdfs", "kafka", "streams"]
  }
  assert {
    condition     = local.services == toset(["hdfs", "kafka", "streams"])
    error_message = "The services that are given should run alone: ${join(", ", local.services)}"
  }
}

run "a_stack_without_the_engine_of_its_pattern" {
  command = plan
  variables {
    patterns = ["storm-spark"]
    services = ["flink", "hbase", "hdfs", "kafka", "spark"]
  }
  expect_failures = [var.services]
}
