variable "patterns" {
  description = "The patterns to run: names of files in pipelines/*/patterns, without .yaml."
  type        = set(string)
  default     = ["flink-spark"]
}

variable "port_base" {
  description = "First of the 100 ports of the stack."
  type        = number
  default     = 20000
}

variable "services" {
  description = "The services to run; null: those that patterns need, and the live page. One that leaves the list runs until the destroy."
  type        = set(string)
  default     = null

  validation {
    condition     = var.services == null ? true : length(setsubtract(local.needed, var.services)) == 0
    error_message = "The patterns need ${join(", ", local.needed)}; others may come on top, such as airflow and dashboard."
  }
}

variable "profiles" {
  description = "Variants of the stack, see `millrace up --help`; they can be combined."
  type        = set(string)
  default     = []
}

variable "validate" {
  description = "Whether an apply ends with a verdict on each pattern, and fails unless it is ok."
  type        = bool
  default     = true
}

variable "traffic" {
  description = "Generated events to send before each verdict; null sends none."
  type = object({
    rate    = optional(number, 200)
    seconds = optional(number, 10)
  })
  default = {}
}

variable "watch" {
  description = "Start the watcher, which restarts servers and jobs that die; without it the next apply repairs them."
  type        = bool
  default     = true
}

variable "keep_data" {
  description = "Whether a destroy keeps all data for the next apply. Apply a change before the destroy."
  type        = bool
  default     = true
}

variable "state" {
  description = "The state folder of the stack; null: .millrace in the project."
  type        = string
  default     = null
}

variable "home" {
  description = "Folder of downloads, shared by all stacks; null: the default of the command line."
  type        = string
  default     = null
}

variable "cli" {
  description = "The command line of millrace; null: that of .venv in the project, else `millrace` on the PATH."
  type        = string
  default     = null
}
