variables {
  cli         = "millrace"
  environment = { MILLRACE_STATE = "/nowhere" }
}

run "no_command_line" {
  command = plan
  variables {
    cli = ""
  }
  expect_failures = [var.cli]
}

run "no_state_folder" {
  command = plan
  variables {
    environment = {}
  }
  expect_failures = [var.environment]
}

run "ports_of_the_system" {
  command = plan
  variables {
    port_base = 40000
  }
  expect_failures = [var.port_base]
}

run "half_a_port" {
  command = plan
  variables {
    port_base = 20000.5
  }
  expect_failures = [var.port_base]
}

run "a_service_that_is_not" {
  command = plan
  variables {
    services = ["kafka", "redis"]
  }
  expect_failures = [var.services]
}

run "a_profile_that_is_not" {
  command = plan
  variables {
    profiles = ["huge"]
  }
  expect_failures = [var.profiles]
}
