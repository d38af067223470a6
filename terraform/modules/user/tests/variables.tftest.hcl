variables {
  name    = "flink-reader"
  access  = { "flink.alerts" = ["Read"] }
  cluster = { name = "millrace", namespace = "millrace" }
}

run "a_name_with_a_dot" {
  command = plan
  variables {
    name = "flink.reader"
  }
  expect_failures = [var.name]
}

run "no_access" {
  command = plan
  variables {
    access = {}
  }
  expect_failures = [var.access]
}

run "an_operation_that_is_not" {
  command = plan
  variables {
    access = { "flink.alerts" = ["Peek"] }
  }
  expect_failures = [var.access]
}
