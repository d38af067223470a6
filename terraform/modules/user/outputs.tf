output "manifest" {
  description = "The KafkaUser of the Strimzi operator."
  value       = local.manifest
}

output "secret" {
  description = "Where the operator leaves the user's certificate and key."
  value       = var.name
}
