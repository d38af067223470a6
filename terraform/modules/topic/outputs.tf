output "name" {
  description = "Name of the topic."
  value       = terraform_data.topic.output.name
}

output "declared" {
  description = "The declaration of the topic."
  value       = terraform_data.topic.input
}

output "manifest" {
  description = "The KafkaTopic of the Strimzi operator; null without a cluster."
  value = var.cluster == null ? null : {
    apiVersion = "kafka.strimzi.io/v1"
    kind       = "KafkaTopic"
    metadata = {
      name      = lower(var.declared.name)
      namespace = var.cluster.namespace
      labels    = { "strimzi.io/cluster" = var.cluster.name, "app.kubernetes.io/part-of" = "millrace" }
    }
    spec = {
      topicName  = var.declared.name
      partitions = var.declared.partitions
      replicas   = var.cluster.replicas
      config = merge(
        { for key, value in var.declared.config : key => value },
        # One broker may be away, and what was acknowledged is still there.
        { "min.insync.replicas" = tostring(max(1, var.cluster.replicas - 1)) },
      )
    }
  }
}

output "access" {
  description = "Permissions: user -> operations."
  value = { for user in setunion(var.declared.readers, var.declared.writers) : user => concat(
    ["Describe"],
    contains(var.declared.readers, user) ? ["Read"] : [],
    contains(var.declared.writers, user) ? ["Write"] : [],
  ) }
}
