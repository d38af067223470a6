output "manifests" {
  description = "The namespace, its accounts, its network policies and Kafka, as Kubernetes objects."
  value       = concat([local.namespace, local.account, local.role, local.binding], local.policies, [local.pool, local.kafka])
}

output "cluster" {
  description = "The properties of the cluster that topics and users need."
  value       = { name = var.name, namespace = var.namespace, replicas = local.replicas }
}

output "kafka_bootstrap" {
  description = "Kafka's address for jobs of the namespace."
  value       = "${var.name}-kafka-bootstrap.${var.namespace}.svc:9092"
}

output "kafka_bootstrap_tls" {
  description = "Kafka's address for all others, who need the certificate of a KafkaUser."
  value       = "${var.name}-kafka-bootstrap.${var.namespace}.svc:9093"
}

output "service_account" {
  description = "The service account of the jobs."
  value       = local.account.metadata.name
}
