output "manifests" {
  description = "The namespace, its accounts, its network policies and Kafka, as Kubernetes objects."
  value       = concat([local.namespace, local.account, local.role, local.binding], local.policies, [local.pool, local.kafka])
}

output "cluster" {
  description = "What topics and users must know of it."
  value       = { name = var.name, namespace = var.namespace, replicas = local.replicas }
}

output "kafka_bootstrap" {
  description = "Where the jobs of the namespace find Kafka."
  value       = "${var.name}-kafka-bootstrap.${var.namespace}.svc:9092"
}

output "kafka_bootstrap_tls" {
  description = "Where everybody else finds Kafka, with a certificate of a KafkaUser."
  value       = "${var.name}-kafka-bootstrap.${var.namespace}.svc:9093"
}

output "service_account" {
  description = "Under which the jobs run."
  value       = local.account.metadata.name
}
