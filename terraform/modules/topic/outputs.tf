output "name" {
  description = "Name of the topic."
  value       = terraform_data.topic.output.name
}

output "declared" {
  description = "All that is declared of the topic."
  value       = terraform_data.topic.input
}

output "manifest" {
  description = "The KafkaTopic of the Strimzi operator; null where no cluster is given."
  value = var.cluster == null ? null : {
    apiVersion = "kafka.strimzi.io/v1"
    kind       = "KafkaTopic"
    metadata = {
      name      = lower(var.name)
      namespace = var.cluster.namespace
      labels    = { "strimzi.io/cluster" = var.cluster.name, "app.kubernetes.io/part-of" = "millrace" }
    }
    spec = {
      topicName  = var.name
      partitions = var.partitions
      replicas   = var.cluster.replicas
      config = merge(
        { for key, value in local.config : key => value },
        # One broker may be away, and what was acknowledged is still there.
        { "min.insync.replicas" = tostring(max(1, var.cluster.replicas - 1)) },
      )
    }
  }
}

output "access" {
  description = "Who may do what with it: user -> operations."
  value = { for user in setunion(var.readers, var.writers) : user => concat(
    ["Describe"],
    contains(var.readers, user) ? ["Read"] : [],
    contains(var.writers, user) ? ["Write"] : [],
  ) }
}
