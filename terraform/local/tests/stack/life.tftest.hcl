# The life of a stack and a pattern, on real servers: applied, lost, repaired, changed, and destroyed at the end.
# It changes files of its clone and kills servers: tests/terraform/test_local_target.py runs it in a copy. With -var come
# the place of that copy (clone), the state folder (folder, which TF_VAR_state passes to the target alone), the services,
# the pattern (patterns and pattern) with its engines, the first of which judges events, and the pattern of the other
# team (theirs).

# Most of a verdict's time is waiting for windows to close, so there are two: on what was applied first, and on all that
# happened to it.
variables {
  traffic = { seconds = 5 }
  watch   = false # what is lost here is to be seen by a plan, not to be restarted
}

run "apply" {
  assert {
    condition     = fileexists("${var.state}/run/kafka-1.json")
    error_message = "The stack should have started."
  }
}

run "a_second_plan_finds_nothing" {
  command = plan

  assert {
    condition     = jsonencode(output.because) == jsonencode(run.apply.because)
    error_message = "Something would be made again: ${jsonencode(output.because)}"
  }
}

run "kill_a_server" {
  module {
    source = "../modules/verb"
  }
  variables {
    name        = "kill"
    wanted      = "kill" # runs of one module share a state: another wish is another call
    program     = "${var.clone}/.venv/bin/millrace"
    apply       = [["kill", "kafka-1", "--stay-dead"]]
    environment = { MILLRACE_STATE = var.folder }
  }
}

run "the_killed_server_is_drift" {
  command = plan

  assert {
    condition     = strcontains(output.because.stack, "kafka-1 is dead")
    error_message = "The plan should say what died: ${output.because.stack}"
  }
}

run "it_is_repaired" {
  variables {
    validate = false
  }
}

run "then_there_is_nothing_to_do" {
  command = plan

  assert {
    condition     = jsonencode(output.because) == jsonencode(run.it_is_repaired.because)
    error_message = "Something would be made again: ${jsonencode(output.because)}"
  }
}

run "lose_the_jobs_and_a_topic" {
  module {
    source = "../modules/verb"
  }
  variables {
    name        = "lose"
    wanted      = "lose"
    program     = "${var.clone}/.venv/bin/python"
    apply       = [["${var.clone}/tests/terraform/lose.py", var.pattern]]
    environment = { MILLRACE_STATE = var.folder, PYTHONPATH = var.clone }
  }
}

run "the_lost_jobs_and_topic_are_drift" {
  command = plan

  assert {
    condition = alltrue([for engine in var.engines :
      strcontains(output.because[var.pattern].deploy, "job ${var.pattern}/${engine}")
    ])
    error_message = "The plan should name each job: ${output.because[var.pattern].deploy}"
  }
  assert {
    condition     = strcontains(output.because[var.pattern].provision, "topic ${var.pattern}.hop: create")
    error_message = "The plan should name the topic: ${output.because[var.pattern].provision}"
  }
}

run "they_are_repaired" {
  variables {
    validate = false
  }
}

run "change_a_threshold_and_the_retention" {
  module {
    source = "../modules/verb"
  }
  variables {
    name    = "change"
    wanted  = "change"
    program = "sed"
    apply = [
      ["-i", "s/km(now, before.phone) > 1.0)/km(now, before.phone) > 2.0)/", "${var.clone}/pipelines/fraud/rules.py"],
      ["-i", "s/^partitions: 2/partitions: 2\\nretention_hours: 36/", "${var.clone}/pipelines/fraud/patterns/${var.pattern}.yaml"],
    ]
  }
}

run "declare_what_changed" {
  module {
    source = "../modules/verb"
  }
  variables {
    name    = "declare"
    wanted  = "declare"
    program = "${var.clone}/.venv/bin/millrace"
    apply   = [["declare"]]
  }
}

run "the_plan_is_that_change" {
  command = plan

  assert {
    condition     = strcontains(output.because[var.pattern].deploy, "${var.engines[0]} job: versions.away-from-phone")
    error_message = "The plan should name the rule: ${output.because[var.pattern].deploy}"
  }
  assert {
    condition     = strcontains(output.because[var.pattern].provision, "topic ${var.pattern}.transactions: change (retention.ms: 86400000 -> 129600000")
    error_message = "The plan should name the topic: ${output.because[var.pattern].provision}"
  }
  assert {
    condition     = output.because.stack == run.they_are_repaired.because.stack
    error_message = "The servers have nothing to do with it: ${output.because.stack}"
  }
}

run "it_is_changed_in_place_and_nothing_was_lost" {
  assert {
    condition     = strcontains(output.because[var.pattern].deploy, "continue as")
    error_message = "The jobs should go on from their state: ${output.because[var.pattern].deploy}"
  }
}

run "and_again_nothing_to_do" {
  command = plan

  assert {
    condition     = jsonencode(output.because) == jsonencode(run.it_is_changed_in_place_and_nothing_was_lost.because)
    error_message = "Something would be made again: ${jsonencode(output.because)}"
  }
}

# The labels of invented traffic fit the rules as they stand here, and bind a rule that was changed before it first ran.
run "change_the_threshold_back" {
  module {
    source = "../modules/verb"
  }
  variables {
    name    = "change"
    wanted  = "change back"
    program = "sed"
    apply = [
      ["-i", "s/km(now, before.phone) > 2.0)/km(now, before.phone) > 1.0)/", "${var.clone}/pipelines/fraud/rules.py"],
    ]
  }
}

# The same servers as the target "existing", by their addresses, under a state folder of its own.
run "another_team_uses_the_servers" {
  module {
    source = "../existing"
  }
  variables {
    patterns        = [var.theirs]
    kafka_bootstrap = run.apply.addresses.KAFKA_BOOTSTRAP
    hdfs_uri        = run.apply.addresses.HDFS_URI
    webhdfs_url     = run.apply.addresses.WEBHDFS_URL
    hbase_thrift    = "${run.apply.addresses.HBASE_THRIFT_HOST}:${run.apply.addresses.HBASE_THRIFT_PORT}"
    flink_rest_url  = run.apply.addresses.FLINK_REST_URL
    flink_home      = "${var.folder}/conf/flink"
    state           = "${var.folder}-existing"
    port_base       = var.port_base + 100
    validate        = true
    allow_traffic   = true
    traffic         = { seconds = 5 }
  }

  assert {
    condition     = !fileexists("${var.folder}-existing/run/kafka-1.json")
    error_message = "No server should have been started."
  }
}

run "for_them_too_a_second_plan_finds_nothing" {
  command = plan
  module {
    source = "../existing"
  }
  variables {
    patterns        = [var.theirs]
    kafka_bootstrap = run.apply.addresses.KAFKA_BOOTSTRAP
    hdfs_uri        = run.apply.addresses.HDFS_URI
    webhdfs_url     = run.apply.addresses.WEBHDFS_URL
    hbase_thrift    = "${run.apply.addresses.HBASE_THRIFT_HOST}:${run.apply.addresses.HBASE_THRIFT_PORT}"
    flink_rest_url  = run.apply.addresses.FLINK_REST_URL
    flink_home      = "${var.folder}/conf/flink"
    state           = "${var.folder}-existing"
    port_base       = var.port_base + 100
    validate        = true
    allow_traffic   = true
    traffic         = { seconds = 5 }
  }

  assert {
    condition     = jsonencode(output.because) == jsonencode(run.another_team_uses_the_servers.because)
    error_message = "Something would be made again: ${jsonencode(output.because)}"
  }
}
