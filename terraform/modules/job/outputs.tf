output "name" {
  description = "What people call the job."
  value       = "${var.declared.pattern}/${var.declared.engine}"
}

output "declared" {
  description = "All that is declared of the job."
  value       = terraform_data.job.input
}

output "manifests" {
  description = "The job as Kubernetes objects; empty where no platform is given."
  value       = [for manifest in [jsonencode(local.plan_manifest), jsonencode(local.flink_manifest), jsonencode(local.spark_manifest)] : jsondecode(manifest) if manifest != "null"]
}
