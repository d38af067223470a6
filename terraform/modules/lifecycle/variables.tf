variable "pattern" {
  description = "Name of the pattern."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]*$", var.pattern))
    error_message = "A pattern's name has small letters, digits and dashes."
  }
}

variable "topics" {
  description = "What is declared of its topics."
  type        = any
}

variable "tables" {
  description = "What is declared of its tables."
  type        = any
}

variable "jobs" {
  description = "What is declared of its jobs."
  type        = any
}

variable "servers" {
  description = "Changes when servers were started anew: everything on them is looked at again."
  type        = string
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
  description = "Environment of the command line: MILLRACE_STATE, and what else chooses a stack."
  type        = map(string)

  validation {
    condition     = startswith(lookup(var.environment, "MILLRACE_STATE", ""), "/")
    error_message = "MILLRACE_STATE must be given, as an absolute path."
  }
}

variable "validate" {
  description = "Whether an apply ends with a verdict: without a good one it fails."
  type        = bool
  default     = true
}

variable "traffic" {
  description = "Invented events that are sent before each verdict, so that there is something to judge; null sends none."
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
  description = "Whether a destroy leaves topics, tables and files; the jobs' state stays with them. Apply a change of this before you destroy."
  type        = bool
  default     = true
}

variable "servers_go_too" {
  description = "Whether the servers are destroyed with it: then a job that cannot be stopped any more holds nothing up."
  type        = bool
  default     = false
}

variable "differences" {
  description = "What was observed to differ, by the verb that puts it right."
  type = object({
    provision = optional(list(string), [])
    deploy    = optional(list(string), [])
  })
  default = {}
}

variable "notes" {
  description = "The notes that earlier verbs left, as observed."
  type        = map(string)
  default     = {}
}
