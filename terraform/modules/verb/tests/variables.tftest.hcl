variables {
  name    = "topics"
  program = "true"
  apply   = [[]]
}

run "a_name_with_a_slash" {
  command = plan
  variables {
    name = "a/b"
  }
  expect_failures = [var.name]
}

run "no_program" {
  command = plan
  variables {
    program = ""
  }
  expect_failures = [var.program]
}

run "no_call" {
  command = plan
  variables {
    apply = []
  }
  expect_failures = [var.apply]
}

run "a_variable_of_its_own" {
  command = plan
  variables {
    environment = { MILLRACE_SEEN = "x" }
  }
  expect_failures = [var.environment]
}
