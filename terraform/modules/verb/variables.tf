variable "name" {
  description = "Names what is made true; the file name of the note about it."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9._-]{0,99}$", var.name))
    error_message = "A name starts with a small letter or a digit and has small letters, digits, dots, dashes and underscores, 100 at most."
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
  description = "Calls that make it true, as lists of words, one after the other. Each must be safe to repeat."
  type        = list(list(string))

  validation {
    condition     = length(var.apply) > 0
    error_message = "Give at least one call."
  }
}

variable "destroy" {
  description = "Calls that undo it, as lists of words."
  type        = list(list(string))
  default     = []
}

variable "destroy_or_go_on" {
  description = "Whether a destroy goes on when these calls fail: true where what they would stop goes anyway."
  type        = bool
  default     = false
}

variable "environment" {
  description = "Environment variables of the calls. MILLRACE_STATE is where the note goes; without it none is left."
  type        = map(string)
  default     = {}

  validation {
    condition     = !contains(keys(var.environment), "MILLRACE_SEEN") && !contains(keys(var.environment), "MILLRACE_STDIN")
    error_message = "MILLRACE_SEEN and MILLRACE_STDIN are this module's own."
  }
}

variable "stdin" {
  description = "What the calls read from their standard input."
  type        = string
  default     = null
}

variable "wanted" {
  description = "What is declared: a change of it makes the calls again."
  type        = any
  default     = null
}

variable "identity" {
  description = "What cannot change in place: a change of it undoes first and makes again."
  type        = any
  default     = null
}

variable "differences" {
  description = "What was observed to differ from what is declared, in sentences; any makes the calls again."
  type        = list(string)
  default     = []
}

variable "note" {
  description = "The note that the last calls left, as observed."
  type        = string
  default     = null
}
