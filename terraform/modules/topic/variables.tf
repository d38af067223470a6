variable "declared" {
  description = "The topic: partitions, configuration, and the users that read and write it. On Kubernetes each user gets access rules."
  type = object({
    name       = string
    partitions = number
    config     = any
    readers    = list(string)
    writers    = list(string)
  })
}

variable "cluster" {
  description = "The Strimzi cluster to render it for; null renders nothing."
  type = object({
    name      = string
    namespace = string
    replicas  = optional(number, 3)
  })
  default = null
}
