variables {
  name = "flink.transactions"
}

run "a_name_with_a_space" {
  command = plan
  variables {
    name = "two words"
  }
  expect_failures = [var.name]
}

run "a_name_of_a_dot" {
  command = plan
  variables {
    name = "."
  }
  expect_failures = [var.name]
}

run "no_partition" {
  command = plan
  variables {
    partitions = 0
  }
  expect_failures = [var.partitions]
}

run "half_a_partition" {
  command = plan
  variables {
    partitions = 1.5
  }
  expect_failures = [var.partitions]
}

run "kept_for_no_time" {
  command = plan
  variables {
    retention_hours = 0
  }
  expect_failures = [var.retention_hours]
}
