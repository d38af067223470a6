variable "name" {
  description = "Name of the user; its consumer groups begin with it."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", var.name))
    error_message = "A user's name has lower-case letters, digits and dashes, 63 at most."
  }
}

variable "access" {
  description = "Topic -> the user's permissions on it."
  type        = map(list(string))

  validation {
    condition     = length(var.access) > 0
    error_message = "A user needs access to at least one topic."
  }

  validation {
    condition     = alltrue(flatten([for operations in values(var.access) : [for operation in operations : contains(["Read", "Write", "Describe"], operation)]]))
    error_message = "An operation is Read, Write or Describe."
  }
}

variable "transactional_id" {
  description = "With what the ids of the user's transactions begin; null: it writes in none."
  type        = string
  default     = null

  validation {
    condition     = var.transactional_id == null ? true : length(var.transactional_id) > 0
    error_message = "An empty prefix would be that of every user's transactions."
  }
}

variable "cluster" {
  description = "The Strimzi cluster."
  type = object({
    name      = string
    namespace = string
  })
}
