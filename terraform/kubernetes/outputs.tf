output "manifests" {
  description = "All manifests as one YAML text, in the order of their application."
  value       = join("---\n", concat([local.texts.platform], [for name in keys(local.chosen) : local.texts.topics[name]], [for name in keys(local.chosen) : local.texts.jobs[name]]))
}

output "plans" {
  description = "Pattern and engine -> the plan of the job."
  value = { for object in flatten([for pattern in module.pattern : pattern.job_manifests]) :
    object.metadata.name => jsondecode(object.data["plan.json"]) if object.kind == "ConfigMap"
  }
}

output "users" {
  description = "User of Kafka -> the secret with its certificate and key."
  value       = { for name, user in module.user : name => user.secret }
}

output "kafka_bootstrap" {
  description = "Kafka's address for users."
  value       = module.cluster.kafka_bootstrap_tls
}

output "tail_alerts" {
  description = "Pattern -> the command that prints its alerts as they arrive."
  value = { for name in keys(local.chosen) : name => join(" ", [
    "kubectl --namespace ${var.namespace} exec ${var.kafka.name}-${var.kafka.name}-dual-0 --",
    "bin/kafka-console-consumer.sh --bootstrap-server ${module.cluster.kafka_bootstrap} --topic ${name}.alerts",
  ]) }
}
