run "a_family_keeps_one_version_unless_declared" {
  command = plan
  variables {
    declared = { name = "flink.customers", families = { s = {}, a = { max_versions = 3 } } }
  }
  assert {
    condition     = output.declared.families["s"].max_versions == 1 && output.declared.families["a"].max_versions == 3
    error_message = "The declared numbers of versions should stay: ${jsonencode(output.declared)}"
  }
}
