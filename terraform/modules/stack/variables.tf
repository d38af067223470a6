variable "declared" {
  description = "The local stack: its services, profiles and ports, from the module `declared`."
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
  description = "Environment of the command line; MILLRACE_STATE is required, MILLRACE_TARGET has the addresses of existing servers."
  type        = map(string)

  validation {
    condition     = startswith(lookup(var.environment, "MILLRACE_STATE", ""), "/")
    error_message = "MILLRACE_STATE must be given, as an absolute path."
  }
}

variable "port_base" {
  description = "First of the 100 ports of the stack."
  type        = number
  default     = 20000

  validation {
    condition     = var.port_base >= var.declared.port_base.least && var.port_base <= var.declared.port_base.most && floor(var.port_base) == var.port_base
    error_message = "The port base is a whole number from ${var.declared.port_base.least} to ${var.declared.port_base.most}: a hundred ports follow it, and those from 32768 on are the system's own."
  }
}

variable "services" {
  description = "The services to run; null: those that patterns need; empty: none, and the servers of MILLRACE_TARGET are used. One that leaves the list runs until the destroy: others may need it, and `millrace down` stops all."
  type        = set(string)
  default     = null

  validation {
    condition     = var.services == null ? true : length(setsubtract(var.services, var.declared.services)) == 0
    error_message = "A service is one of ${join(", ", var.declared.services)}."
  }
}

variable "profiles" {
  description = "Variants of the stack, see `millrace up --help`; they can be combined."
  type        = set(string)
  default     = []

  validation {
    condition     = length(setsubtract(var.profiles, keys(var.declared.profiles))) == 0
    error_message = "A profile is one of ${join(", ", keys(var.declared.profiles))}."
  }
}

variable "watch" {
  description = "Start the watcher, which restarts servers and jobs that die; without it the next apply repairs them."
  type        = bool
  default     = true
}

variable "keep_data" {
  description = "Whether a destroy keeps topics, tables, files and logs for the next apply. Apply a change before the destroy."
  type        = bool
  default     = true
}

variable "differences" {
  description = "Observed problems of the servers."
  type        = list(string)
  default     = []
}

variable "note" {
  description = "The note of the last start, as observed."
  type        = string
  default     = null
}
