# A use, an engine and kinds of topics that no module names.
variables {
  declared = {
    topics            = { readings = { name = "heat.readings", partitions = 3, config = { "retention.ms" = "1" }, readers = ["heat-made-up"], writers = ["heat-edge"] } }
    tables            = {}
    transactional_ids = { heat-made-up = "heat-" }
    jobs = { made-up = {
      pattern = "heat", engine = "made-up", events = ["too-hot"], windows = [], summaries = [], persist = [], partitions = 3, parallelism = 1
    } }
  }
}

run "all_that_is_declared_is_planned" {
  command = plan
  assert {
    condition     = output.topics["readings"].partitions == 3 && output.jobs["made-up"].events == tolist(["too-hot"]) && length(output.tables) == 0
    error_message = "The topics, tables and jobs should be those declared."
  }
  assert {
    condition     = jsonencode(output.transactional_ids) == jsonencode({ heat-made-up = "heat-" })
    error_message = "The transactions should be those declared: ${jsonencode(output.transactional_ids)}"
  }
  assert {
    condition     = jsonencode(output.access["heat-edge"]) == jsonencode({ "heat.readings" = ["Describe", "Write"] })
    error_message = "The access should be that declared: ${jsonencode(output.access)}"
  }
}
