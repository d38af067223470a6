variable "pattern" {
  description = "The pattern that the job belongs to."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]*$", var.pattern))
    error_message = "A pattern's name has small letters, digits and dashes."
  }
}

variable "engine" {
  description = "The engine that runs the job."
  type        = string

  validation {
    condition     = contains(["flink", "spark"], var.engine)
    error_message = "An engine is flink or spark."
  }
}

variable "events" {
  description = "Rules of the per-event stage, if the job runs it."
  type        = list(string)
  default     = []
}

variable "windows" {
  description = "Rules of the windows stage, if the job runs it."
  type        = list(string)
  default     = []
}

variable "summaries" {
  description = "Summaries of the windows stage, if the job runs it."
  type        = list(string)
  default     = []
}

variable "persist" {
  description = "Where the persisting stage writes, if the job runs it."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for store in var.persist : contains(["hdfs", "hbase"], store)])
    error_message = "A store is hdfs or hbase."
  }
}

variable "parallelism" {
  description = "Parallel instances of the per-event stage."
  type        = number
  default     = 1

  validation {
    condition     = var.parallelism >= 1 && var.parallelism <= 64 && floor(var.parallelism) == var.parallelism
    error_message = "The parallelism is a whole number from 1 to 64."
  }
}

variable "partitions" {
  description = "Partitions of the topics that the job reads."
  type        = number
  default     = 1

  validation {
    condition     = var.partitions >= 1 && var.partitions <= 256 && floor(var.partitions) == var.partitions
    error_message = "The number of partitions is a whole number from 1 to 256."
  }
}

variable "kubernetes" {
  description = "The platform for whose operators to render the job; without one nothing is rendered."
  type = object({
    namespace       = string
    service_account = string
    image           = string
    use             = string
    topics          = map(string)
    kafka_bootstrap = string
    hdfs_uri        = string
    hdfs_user       = string
    hbase_thrift    = string
    flink_release   = optional(string, "2.3.0")
    flink_version   = optional(string, "v2_3")
    flink_cpu       = optional(number, 1)
    flink_memory    = optional(string, "2g")
    spark_release   = optional(string, "4.2.0")
    spark_cores     = optional(number, 2)
    spark_memory    = optional(string, "2g")
  })
  default = null

  validation {
    condition     = var.kubernetes == null ? true : can(regex("^v[0-9]+_[0-9]+$", var.kubernetes.flink_version))
    error_message = "The Flink operator names versions like v2_3."
  }

  validation {
    condition     = var.kubernetes == null ? true : can(regex("^hdfs://[^/@]+$", var.kubernetes.hdfs_uri)) && can(regex("^[^:/@]+:[0-9]+$", var.kubernetes.hbase_thrift))
    error_message = "Give hdfs_uri as hdfs://host:port and hbase_thrift as host:port."
  }
}
