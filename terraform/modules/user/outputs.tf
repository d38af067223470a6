output "manifest" {
  description = "The KafkaUser of the Strimzi operator."
  value       = local.manifest
}

output "secret" {
  description = "Name of the secret with the user's certificate and key."
  value       = var.name
}
