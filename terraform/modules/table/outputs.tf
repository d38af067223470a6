output "name" {
  description = "Name of the table."
  value       = terraform_data.table.output.name
}

output "declared" {
  description = "All that is declared of the table."
  value       = terraform_data.table.input
}
