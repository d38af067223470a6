variable "name" {
  description = "Name of the pattern: its file's name, the prefix of its topics and tables."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]*$", var.name))
    error_message = "A pattern's name has small letters, digits and dashes."
  }
}

variable "pattern" {
  description = "The pattern: what its file says, as yamldecode() gives it."
  type = object({
    title           = string
    doc             = string
    use             = string
    partitions      = optional(number, 1)
    retention_hours = optional(number, 24)
    stages = object({
      events = object({
        engine      = string
        rules       = list(string)
        parallelism = optional(number, 1)
      })
      windows = object({
        engine    = string
        rules     = optional(list(string), [])
        summaries = optional(list(string), [])
      })
      persist = optional(object({
        engine = string
        to     = list(string)
      }))
    })
    promises = object({
      delivery             = string
      alert_latency_ms_p99 = number
      warm_after_s         = optional(number, 20)
    })
  })

  validation {
    condition     = fileexists("${path.module}/../../../pipelines/${var.pattern.use}/use.json")
    error_message = "There is no use '${var.pattern.use}'; a use is a folder in pipelines/ that holds a use.json."
  }

  validation {
    condition     = var.pattern.partitions >= 1 && var.pattern.partitions <= 256
    error_message = "A pattern has 1 to 256 partitions."
  }

  validation {
    condition     = var.pattern.stages.events.parallelism <= var.pattern.partitions
    error_message = "${var.pattern.stages.events.parallelism} instances cannot share ${var.pattern.partitions} partition(s): raise partitions or lower parallelism."
  }

  validation {
    condition     = !(var.pattern.stages.events.engine == "spark" && var.pattern.stages.windows.engine == "flink")
    error_message = "Flink windows run inside the Flink events stage: choose spark for the windows too."
  }

  validation {
    condition     = length(var.pattern.stages.events.rules) > 0
    error_message = "The events stage needs at least one rule."
  }
}

variable "cluster" {
  description = "The Strimzi cluster for which to render the topics; without one nothing is rendered."
  type = object({
    name      = string
    namespace = string
    replicas  = optional(number, 3)
  })
  default = null
}

variable "kubernetes" {
  description = "The platform for whose operators to render the jobs, with an image for each engine; without one nothing is rendered."
  type = object({
    namespace       = string
    service_account = string
    images          = object({ flink = string, spark = string })
    kafka_bootstrap = string
    hdfs_uri        = string
    hdfs_user       = string
    hbase_thrift    = string
  })
  default = null
}
