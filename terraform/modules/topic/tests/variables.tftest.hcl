variables {
  declared = { name = "flink.alerts", partitions = 2, config = { "retention.ms" = "86400000" }, readers = ["flink-reader"], writers = ["flink-flink"] }
  cluster  = { name = "millrace", namespace = "millrace", replicas = 3 }
}

run "a_topic_on_kubernetes" {
  command = plan
  assert {
    condition     = output.manifest.spec.config["min.insync.replicas"] == "2" && output.manifest.spec.config["retention.ms"] == "86400000"
    error_message = "One broker may be away, and the declared configuration stays."
  }
  assert {
    condition     = jsonencode(output.access) == jsonencode({ flink-flink = ["Describe", "Write"], flink-reader = ["Describe", "Read"] })
    error_message = "Writers write and readers read: ${jsonencode(output.access)}"
  }
}
