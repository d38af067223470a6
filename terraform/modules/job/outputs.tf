output "name" {
  description = "Name of the job, as in messages."
  value       = "${var.declared.pattern}/${var.declared.engine}"
}

output "declared" {
  description = "The declaration of the job."
  value       = terraform_data.job.input
}

output "manifests" {
  description = "The job as Kubernetes objects; empty without a platform."
  value       = [for manifest in [jsonencode(local.plan_manifest), jsonencode(local.flink_manifest), jsonencode(local.spark_manifest), jsonencode(local.streams_manifest)] : jsondecode(manifest) if manifest != "null"]
}
