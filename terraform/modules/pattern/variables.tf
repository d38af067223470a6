variable "declared" {
  description = "The pattern: what module `declared` reads of its topics, tables and jobs."
  type        = any
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
    images          = map(string)
    kafka_bootstrap = string
    hdfs_uri        = string
    hdfs_user       = string
    hbase_thrift    = string
  })
  default = null
}
