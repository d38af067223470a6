variables {
  pattern     = "flink"
  topics      = {}
  tables      = {}
  jobs        = {}
  cli         = "millrace"
  environment = { MILLRACE_STATE = "/nowhere" }
}

run "a_pattern_that_is_a_path" {
  command = plan
  variables {
    pattern = "../flink"
  }
  expect_failures = [var.pattern]
}

run "no_command_line" {
  command = plan
  variables {
    cli = ""
  }
  expect_failures = [var.cli]
}

run "a_relative_state_folder" {
  command = plan
  variables {
    environment = { MILLRACE_STATE = "here" }
  }
  expect_failures = [var.environment]
}

run "hardly_any_traffic" {
  command = plan
  variables {
    traffic = { rate = 1 }
  }
  expect_failures = [var.traffic]
}
