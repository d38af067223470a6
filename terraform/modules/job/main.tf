terraform {
  required_version = ">= 1.9"
}

# What is declared of the job. `deploy` makes it so; a change of it is the reason why.
resource "terraform_data" "job" {
  input = {
    pattern     = var.pattern
    engine      = var.engine
    events      = var.events
    windows     = var.windows
    summaries   = var.summaries
    persist     = var.persist
    partitions  = var.partitions
    parallelism = var.parallelism
  }

  lifecycle {
    precondition {
      condition     = length(var.events) + length(var.windows) + length(var.summaries) + length(var.persist) > 0
      error_message = "The ${var.engine} job of ${var.pattern} has nothing to do: give it rules, summaries or stores."
    }
  }
}
