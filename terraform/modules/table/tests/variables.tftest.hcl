variables {
  name     = "flink.transactions"
  families = { t = {} }
}

run "a_name_that_begins_with_a_dash" {
  command = plan
  variables {
    name = "-t"
  }
  expect_failures = [var.name]
}

run "no_family" {
  command = plan
  variables {
    families = {}
  }
  expect_failures = [var.families]
}

run "no_version" {
  command = plan
  variables {
    families = { t = { max_versions = 0 } }
  }
  expect_failures = [var.families]
}
