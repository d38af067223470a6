variable "pattern" {
  description = "Name of the pattern."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]*$", var.pattern))
    error_message = "A pattern's name has lower-case letters, digits and dashes."
  }
}

variable "topics" {
  description = "The declarations of its topics."
  type        = any
}

variable "tables" {
  description = "The declarations of its tables."
  type        = any
}

variable "jobs" {
  description = "The declarations of its jobs."
  type        = any
}

variable "servers" {
  description = "A value that changes when servers were started: then all verbs are called again."
  type        = string
  default     = null
}

variable "identity" {
  description = "Where the jobs run: with another value the pattern is torn down where it was, before it is deployed again."
  type        = any
  default     = null
}

variable "cli" {
  description = "The command line of millrace."
  type        = string

  validation {
    condition     = length(var.cli) > 0
    error_message = "Give the path of the millrace command, for example <clone>/.venv/bin/millrace after `make setup`."
  }
}

variable "environment" {
  description = "Environment of the command line: MILLRACE_STATE, and the other variables of the stack."
  type        = map(string)

  validation {
    condition     = startswith(lookup(var.environment, "MILLRACE_STATE", ""), "/")
    error_message = "MILLRACE_STATE must be given, as an absolute path."
  }
}

variable "validate" {
  description = "Whether an apply ends with a verdict, and fails unless it is ok."
  type        = bool
  default     = true
}

variable "traffic" {
  description = "Generated events to send before each verdict; null sends none."
  type = object({
    rate    = optional(number, 200)
    seconds = optional(number, 10)
  })
  default = null

  validation {
    condition     = var.traffic == null ? true : var.traffic.rate >= 10 && var.traffic.seconds >= 1
    error_message = "Traffic is at least 10 events per second, for at least a second."
  }
}

variable "keep_data" {
  description = "Whether a destroy keeps topics, tables, files and the state of the jobs. Apply a change before the destroy."
  type        = bool
  default     = true
}

variable "servers_go_too" {
  description = "Whether the servers are destroyed, too: then a job that does not stop does not fail the destroy."
  type        = bool
  default     = false
}

variable "differences" {
  description = "Observed differences, by the verb that removes them."
  type = object({
    provision = optional(list(string), [])
    deploy    = optional(list(string), [])
  })
  default = {}
}

variable "notes" {
  description = "The notes of earlier verbs, as observed."
  type        = map(string)
  default     = {}
}
