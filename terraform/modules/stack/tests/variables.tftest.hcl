variables {
  declared = {
    port_base        = { least = 1024, most = 32668 }
    observer         = 70
    services         = ["door", "kafka"]
    default_services = ["kafka"]
    addresses        = { KAFKA = { format = "h:%d", ports = [1] }, DOOR = { format = "local", ports = [] } }
    profiles         = { pair = { KAFKA = { format = "h:%d,h:%d", ports = [1, 2] } } }
    web_pages        = { door = { format = "http://h:%d", ports = [5] } }
  }
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

run "ports_and_services_as_declared" {
  command = plan
  assert {
    condition     = jsonencode(output.addresses) == jsonencode({ DOOR = "local", KAFKA = "h:20001" }) && length(output.web_pages) == 0
    error_message = "Each port is the base and its offset, and the default services run: ${jsonencode(output.addresses)}"
  }
}

run "a_profile_and_a_service_more" {
  command = plan
  variables {
    port_base = 30000
    profiles  = ["pair"]
    services  = ["kafka", "door"]
  }
  assert {
    condition     = output.addresses.KAFKA == "h:30001,h:30002" && jsonencode(output.web_pages) == jsonencode({ door = "http://h:30005" })
    error_message = "A profile changes its addresses: ${jsonencode(output.addresses)}"
  }
}
