variable "declared" {
  description = "The pattern: its topics, tables and jobs, from the module `declared`."
  type        = any
}

variable "cluster" {
  description = "The Strimzi cluster to render the topics for; null renders nothing."
  type = object({
    name      = string
    namespace = string
    replicas  = optional(number, 3)
  })
  default = null
}

variable "kubernetes" {
  description = "The Kubernetes platform to render the jobs for, with an image for each engine; null renders nothing."
  type = object({
    namespace       = string
    service_account = string
    images          = map(string)
    kafka_bootstrap = string
    hdfs_uri        = string
    hdfs_user       = string
    hbase_thrift    = string
  })
  default = null
}
