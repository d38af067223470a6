variable "declared" {
  description = "The local stack: what module `declared` reads of its services, profiles and ports."
  type        = any
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
  description = "Environment of the command line; MILLRACE_STATE is required, MILLRACE_TARGET gives the addresses of servers that are already there."
  type        = map(string)

  validation {
    condition     = startswith(lookup(var.environment, "MILLRACE_STATE", ""), "/")
    error_message = "MILLRACE_STATE must be given, as an absolute path."
  }
}

variable "port_base" {
  description = "First of the hundred ports of the stack."
  type        = number
  default     = 20000

  validation {
    condition     = var.port_base >= var.declared.port_base.least && var.port_base <= var.declared.port_base.most && floor(var.port_base) == var.port_base
    error_message = "The port base is a whole number from ${var.declared.port_base.least} to ${var.declared.port_base.most}: a hundred ports follow it, and those from 32768 on are the system's own."
  }
}

variable "services" {
  description = "The services to run; null runs those that patterns need, and with none those of MILLRACE_TARGET are used."
  type        = set(string)
  default     = null

  validation {
    condition     = var.services == null ? true : length(setsubtract(var.services, var.declared.services)) == 0
    error_message = "A service is one of ${join(", ", var.declared.services)}."
  }
}

variable "profiles" {
  description = "Other forms of the stack; they combine."
  type        = set(string)
  default     = []

  validation {
    condition     = length(setsubtract(var.profiles, keys(var.declared.profiles))) == 0
    error_message = "A profile is one of ${join(", ", keys(var.declared.profiles))}."
  }
}

variable "watch" {
  description = "Restart servers and jobs that die, in the background; without it what dies is drift, and the next apply repairs it."
  type        = bool
  default     = true
}

variable "keep_data" {
  description = "Whether a destroy leaves topics, tables, files and logs for the next apply. Apply a change of this before you destroy."
  type        = bool
  default     = true
}

variable "differences" {
  description = "What was observed to be wrong with the servers."
  type        = list(string)
  default     = []
}

variable "note" {
  description = "The note that the last start left, as observed."
  type        = string
  default     = null
}
