run "the_declared_options_of_a_family_stay" {
  command = plan
  variables {
    declared = { name = "flink.customers", families = { s = { max_versions = 1 }, a = { max_versions = 3, time_to_live = 3600 } } }
  }
  assert {
    condition     = output.declared.families["s"].max_versions == 1 && output.declared.families["a"].time_to_live == 3600
    error_message = "The declared options should stay: ${jsonencode(output.declared)}"
  }
}
