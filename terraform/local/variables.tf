variable "patterns" {
  description = "The patterns to run: names of files in pipelines/*/patterns, without .yaml."
  type        = set(string)
  default     = ["flink-spark"]

  validation {
    condition     = length(setsubtract(var.patterns, keys(local.patterns))) == 0
    error_message = "There is no pattern ${join(", ", setsubtract(var.patterns, keys(local.patterns)))}; there is: ${join(", ", keys(local.patterns))}."
  }
}

variable "port_base" {
  description = "First of the hundred ports of the stack."
  type        = number
  default     = 20000

  validation {
    condition     = var.port_base >= 1024 && var.port_base <= 32668 && floor(var.port_base) == var.port_base
    error_message = "The port base is a whole number from 1024 to 32668: a hundred ports follow it, and those from 32768 on are the system's own."
  }
}

variable "services" {
  description = "The services to run."
  type        = set(string)
  default     = ["kafka", "hdfs", "hbase", "flink", "spark"]

  validation {
    condition     = alltrue([for name in ["kafka", "hdfs", "hbase", "flink", "spark"] : contains(var.services, name)])
    error_message = "The patterns need kafka, hdfs, hbase, flink and spark; airflow may come on top."
  }
}

variable "profiles" {
  description = "Other forms of the stack; they combine: three-brokers, durable, spark-cluster."
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

  validation {
    condition     = var.traffic == null ? true : var.traffic.rate >= 10 && var.traffic.seconds >= 1
    error_message = "Traffic is at least 10 events per second, for at least a second."
  }
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
