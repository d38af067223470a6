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

run "a_prefix_of_every_transaction" {
  command = plan
  variables {
    transactional_id = ""
  }
  expect_failures = [var.transactional_id]
}

run "no_transaction" {
  command = plan
  assert {
    condition     = !strcontains(jsonencode(output.manifest), "transactionalId")
    error_message = "A user without transactions needs no right to them."
  }
}

run "transactions_of_a_job" {
  command = plan
  variables {
    name             = "once-streams"
    transactional_id = "once-"
  }
  assert {
    condition = [for acl in output.manifest.spec.authorization.acls : acl.operations if acl.resource == {
      type = "transactionalId", name = "once-", patternType = "prefix"
    }] == [["Describe", "Write"]]
    error_message = "The job should begin and commit its transactions: ${jsonencode(output.manifest)}"
  }
}
