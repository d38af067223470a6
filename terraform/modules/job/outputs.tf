output "name" {
  description = "What people call the job."
  value       = "${var.pattern}/${var.engine}"
}

output "declared" {
  description = "All that is declared of the job."
  value       = terraform_data.job.input
}
