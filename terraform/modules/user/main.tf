terraform {
  required_version = ">= 1.9"
}

locals {
  manifest = {
    apiVersion = "kafka.strimzi.io/v1"
    kind       = "KafkaUser"
    metadata = {
      name      = var.name
      namespace = var.cluster.namespace
      labels    = { "strimzi.io/cluster" = var.cluster.name, "app.kubernetes.io/part-of" = "millrace" }
    }
    spec = {
      authentication = { type = "tls" }
      authorization = {
        type = "simple"
        acls = concat(
          [for topic, operations in var.access : {
            resource   = { type = "topic", name = topic, patternType = "literal" }
            operations = operations
            host       = "*"
          }],
          [for group in anytrue([for operations in values(var.access) : contains(operations, "Read")]) ? [var.name] : [] : {
            resource   = { type = "group", name = group, patternType = "prefix" }
            operations = ["Read"]
            host       = "*"
          }],
          [for id in var.transactional_id == null ? [] : [var.transactional_id] : {
            resource   = { type = "transactionalId", name = id, patternType = "prefix" }
            operations = ["Describe", "Write"]
            host       = "*"
          }],
        )
      }
    }
  }
}
