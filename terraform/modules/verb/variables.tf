variable "name" {
  description = "Name of what the calls establish; also the file name of its note."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9._-]{0,99}$", var.name))
    error_message = "A name starts with a lower-case letter or a digit and has lower-case letters, digits, dots, dashes and underscores, 100 at most."
  }
}

variable "program" {
  description = "The program to call: the command line of millrace, or kubectl."
  type        = string

  validation {
    condition     = length(var.program) > 0
    error_message = "Give the path of the program, or its name if it is on PATH."
  }
}

variable "apply" {
  description = "Calls to make, as lists of words, one after the other. Each must be idempotent."
  type        = list(list(string))

  validation {
    condition     = length(var.apply) > 0
    error_message = "Give at least one call."
  }
}

variable "destroy" {
  description = "Calls that undo it, as lists of words; an empty list undoes nothing for now, null never undoes anything."
  type        = list(list(string))
  default     = null
}

variable "destroy_or_go_on" {
  description = "Whether a destroy continues when these calls fail: true where the servers are destroyed, too."
  type        = bool
  default     = false
}

variable "environment" {
  description = "Environment variables of the calls. MILLRACE_STATE is the folder of the note; without it no note is written."
  type        = map(string)
  default     = {}

  validation {
    condition     = !contains(keys(var.environment), "MILLRACE_SEEN") && !contains(keys(var.environment), "MILLRACE_STDIN")
    error_message = "MILLRACE_SEEN and MILLRACE_STDIN are this module's own."
  }
}

variable "stdin" {
  description = "Standard input of the calls."
  type        = string
  default     = null
}

variable "wanted" {
  description = "The declaration: a change repeats the calls."
  type        = any
  default     = null
}

variable "identity" {
  description = "The part that cannot change in place: a change undoes the calls, then makes them again."
  type        = any
  default     = null
}

variable "differences" {
  description = "Observed differences from the declaration, as sentences; any of them repeats the calls."
  type        = list(string)
  default     = []
}

variable "note" {
  description = "The note of the last calls, as observed."
  type        = string
  default     = null
}
