variable "name" {
  description = "Name of the topic."
  type        = string

  validation {
    condition     = can(regex("^[a-zA-Z0-9._-]{1,249}$", var.name)) && !contains([".", ".."], var.name)
    error_message = "Kafka takes letters, digits, dots, dashes and underscores, 249 at most."
  }
}

variable "partitions" {
  description = "Number of partitions. Kafka can add some and take none away."
  type        = number
  default     = 1

  validation {
    condition     = var.partitions >= 1 && var.partitions <= 256 && floor(var.partitions) == var.partitions
    error_message = "The number of partitions is a whole number from 1 to 256."
  }
}

variable "retention_hours" {
  description = "How long messages are kept; of a compacted topic, those that were overwritten."
  type        = number
  default     = 24

  validation {
    condition     = var.retention_hours >= 1 && var.retention_hours <= 8760 && floor(var.retention_hours) == var.retention_hours
    error_message = "Messages are kept for 1 to 8760 hours (a year)."
  }
}

variable "compacted" {
  description = "Whether only the latest message of each key counts: for reference data."
  type        = bool
  default     = false
}

variable "readers" {
  description = "Who may read it: names of jobs. On Kubernetes each becomes an access rule of that user."
  type        = set(string)
  default     = []
}

variable "writers" {
  description = "Who may write it: names of jobs."
  type        = set(string)
  default     = []
}

variable "cluster" {
  description = "The Strimzi cluster for which to render it; without one nothing is rendered."
  type = object({
    name      = string
    namespace = string
    replicas  = optional(number, 3)
  })
  default = null
}
