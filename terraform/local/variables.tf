variable "patterns" {
  description = "The patterns to run: names of files in pipelines/*/patterns, without .yaml."
  type        = set(string)
  default     = ["flink-spark"]
}

variable "port_base" {
  description = "First of the hundred ports of the stack."
  type        = number
  default     = 20000
}

variable "services" {
  description = "The services to run; null runs those that patterns need."
  type        = set(string)
  default     = null

  validation {
    condition     = var.services == null ? true : length(setsubtract(module.declared.all.stack.default_services, var.services)) == 0
    error_message = "The patterns need ${join(", ", module.declared.all.stack.default_services)}; airflow may come on top."
  }
}

variable "profiles" {
  description = "Other forms of the stack; they combine: `millrace up --help` lists them."
  type        = set(string)
  default     = []
}

variable "validate" {
  description = "Whether an apply ends with a verdict on each pattern, and fails without a good one."
  type        = bool
  default     = true
}

variable "traffic" {
  description = "Invented events that are sent before each verdict, so that there is something to judge; null sends none."
  type = object({
    rate    = optional(number, 200)
    seconds = optional(number, 10)
  })
  default = {}
}

variable "watch" {
  description = "Restart servers and jobs that die, in the background; without it what dies is drift, and the next apply repairs it."
  type        = bool
  default     = true
}

variable "keep_data" {
  description = "Whether a destroy leaves all data for the next apply. Apply a change of this before you destroy."
  type        = bool
  default     = true
}

variable "state" {
  description = "The state folder of the stack; null is .millrace in the clone."
  type        = string
  default     = null
}

variable "home" {
  description = "The folder of downloads that all stacks share; null is what the command line takes by itself."
  type        = string
  default     = null
}

variable "cli" {
  description = "The command line of millrace; null is the clone's own, made by `make setup`."
  type        = string
  default     = null
}
