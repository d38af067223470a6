run "a_pattern_that_is_not" {
  command = plan
  variables {
    patterns = ["flinc"]
  }
  expect_failures = [var.patterns]
}

run "ports_of_the_system" {
  command = plan
  variables {
    port_base = 32669
  }
  expect_failures = [var.port_base]
}

run "a_stack_without_kafka" {
  command = plan
  variables {
    services = ["hdfs"]
  }
  expect_failures = [var.services]
}

run "hardly_any_traffic" {
  command = plan
  variables {
    traffic = { rate = 1 }
  }
  expect_failures = [var.traffic]
}
