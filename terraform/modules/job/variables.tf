variable "pattern" {
  description = "The pattern that the job belongs to."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]*$", var.pattern))
    error_message = "A pattern's name has small letters, digits and dashes."
  }
}

variable "engine" {
  description = "The engine that runs the job."
  type        = string

  validation {
    condition     = contains(["flink", "spark"], var.engine)
    error_message = "An engine is flink or spark."
  }
}

variable "events" {
  description = "Rules of the per-event stage, if the job runs it."
  type        = list(string)
  default     = []
}

variable "windows" {
  description = "Rules of the windows stage, if the job runs it."
  type        = list(string)
  default     = []
}

variable "summaries" {
  description = "Summaries of the windows stage, if the job runs it."
  type        = list(string)
  default     = []
}

variable "persist" {
  description = "Where the persisting stage writes, if the job runs it."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for store in var.persist : contains(["hdfs", "hbase"], store)])
    error_message = "A store is hdfs or hbase."
  }
}

variable "parallelism" {
  description = "Parallel instances of the per-event stage."
  type        = number
  default     = 1

  validation {
    condition     = var.parallelism >= 1 && var.parallelism <= 64 && floor(var.parallelism) == var.parallelism
    error_message = "The parallelism is a whole number from 1 to 64."
  }
}
