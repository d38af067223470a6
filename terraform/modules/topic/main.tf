terraform {
  required_version = ">= 1.9"
}

locals {
  retention_ms = tostring(var.retention_hours * 3600000)
  # The broker's clock, not the sender's: arrival order and latency rest on it.
  append_time = { "message.timestamp.type" = "LogAppendTime" }
  # What a message was judged by stays for as long as the message: the verdict reads both.
  compacted = {
    "cleanup.policy"            = "compact",
    "segment.ms"                = "600000",
    "min.cleanable.dirty.ratio" = "0.1",
    "min.compaction.lag.ms"     = local.retention_ms
  }
  # By time alone: what a broker limits in bytes would go sooner than the pattern says.
  kept   = { "retention.ms" = local.retention_ms, "retention.bytes" = "-1" }
  config = merge(local.append_time, var.compacted ? local.compacted : local.kept)
}

# What is declared of the topic. `provision` makes it so; a change of it is the reason why.
resource "terraform_data" "topic" {
  input = {
    name       = var.name
    partitions = var.partitions
    config     = local.config
    readers    = sort(var.readers)
    writers    = sort(var.writers)
  }
}
