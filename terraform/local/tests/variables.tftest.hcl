run "a_stack_without_kafka" {
  command = plan
  variables {
    services = ["hdfs"]
  }
  expect_failures = [var.services]
}
