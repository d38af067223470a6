variables {
  state    = "/nowhere"
  port     = 26070
  patterns = ["flink"]
}

run "a_relative_folder" {
  command = plan
  variables {
    state = ".millrace"
  }
  expect_failures = [var.state]
}

run "a_port_of_the_system" {
  command = plan
  variables {
    port = 80
  }
  expect_failures = [var.port]
}

run "a_pattern_that_is_a_path" {
  command = plan
  variables {
    patterns = ["../flink"]
  }
  expect_failures = [var.patterns]
}

run "a_service_that_is_a_path" {
  command = plan
  variables {
    services = ["../kafka"]
  }
  expect_failures = [var.services]
}

run "the_services_are_part_of_the_question" {
  command = plan
  variables {
    services = ["kafka", "hdfs"]
  }
  assert {
    condition     = endswith(local.address, "/observation?pattern=flink&service=hdfs&service=kafka")
    error_message = "The address should name both services: ${local.address}"
  }
}
