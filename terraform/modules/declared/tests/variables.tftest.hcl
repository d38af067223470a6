variables {
  project  = "../../.." # of this module: the clone
  patterns = ["flink"]
}

run "a_pattern_of_the_clone" {
  command = plan
  assert {
    condition     = keys(output.all.patterns) == ["flink"] && contains(output.all.stack.services, "kafka")
    error_message = "The chosen pattern and the stack should be read."
  }
}

run "a_project_without_the_file" {
  command = plan
  variables {
    project = "/nowhere"
  }
  expect_failures = [output.all]
}

run "a_pattern_that_is_not" {
  command = plan
  variables {
    patterns = ["flinc"]
  }
  expect_failures = [output.all]
}
