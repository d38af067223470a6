terraform {
  required_version = ">= 1.9"
}

# `deploy` starts the job, or changes it.
resource "terraform_data" "job" {
  input = var.declared

  lifecycle {
    precondition {
      condition     = var.declared.judges_events || length(var.declared.events) + length(var.declared.windows) + length(var.declared.summaries) + length(var.declared.persist) > 0
      error_message = "The ${var.declared.engine} job of ${var.declared.pattern} has nothing to do: give it rules, summaries or stores."
    }
    precondition {
      condition     = local.on == null || contains(["flink", "spark", "streams"], var.declared.engine)
      error_message = "${var.declared.pattern}: there is no manifest of ${var.declared.engine} for Kubernetes; choose a pattern of flink, spark and streams."
    }
  }
}
