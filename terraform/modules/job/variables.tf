variable "declared" {
  description = "The part of the pattern that the engine runs."
  type = object({
    pattern       = string
    engine        = string
    judges_events = optional(bool, false)
    events        = list(string)
    windows       = list(string)
    summaries     = list(string)
    persist       = list(string)
    partitions    = number
    parallelism   = number
    delivery      = optional(string, "at-least-once-with-ids")
  })
}

variable "kubernetes" {
  description = "The Kubernetes platform to render the job for, with the job's plan; null renders nothing."
  type = object({
    namespace       = string
    service_account = string
    image           = string
    plan            = any
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
    streams_cpu     = optional(number, 1)
    streams_memory  = optional(string, "1Gi")
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
