terraform {
  required_version = ">= 1.9"
}

locals {
  labels   = { "app.kubernetes.io/part-of" = "millrace" }
  jobs     = merge(local.labels, { "app.kubernetes.io/component" = "job" })
  of_kafka = { "strimzi.io/cluster" = var.name }
  replicas = min(3, var.brokers)

  namespace = {
    apiVersion = "v1"
    kind       = "Namespace"
    metadata = {
      name = var.namespace
      labels = merge(local.labels, {
        "pod-security.kubernetes.io/enforce" = "restricted"
        "pod-security.kubernetes.io/warn"    = "restricted"
      })
    }
  }
}
