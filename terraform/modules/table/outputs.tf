output "name" {
  description = "Name of the table."
  value       = terraform_data.table.output.name
}

output "declared" {
  description = "The declaration of the table."
  value       = terraform_data.table.input
}
