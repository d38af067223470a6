variable "state" {
  description = "The state folder of the stack (MILLRACE_STATE), as an absolute path."
  type        = string

  validation {
    condition     = startswith(var.state, "/")
    error_message = "Give an absolute path; abspath() makes one."
  }
}

variable "port" {
  description = "Port of the observer."
  type        = number

  validation {
    condition     = var.port >= 1024 && var.port <= 65535 && floor(var.port) == var.port
    error_message = "A port is a whole number from 1024 to 65535."
  }
}

variable "patterns" {
  description = "The patterns to observe."
  type        = set(string)

  validation {
    condition     = alltrue([for name in var.patterns : can(regex("^[a-z0-9-]+$", name))])
    error_message = "A pattern's name has lower-case letters, digits and dashes."
  }
}

variable "services" {
  description = "The services that ought to run; empty: those of the default stack."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for name in var.services : can(regex("^[a-z0-9-]+$", name))])
    error_message = "A service's name has lower-case letters, digits and dashes."
  }
}
