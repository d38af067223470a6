variable "patterns" {
  description = "The patterns to run: names of files in pipelines/*/patterns, without .yaml."
  type        = set(string)
  default     = ["flink-spark"]
}

variable "namespace" {
  description = "The namespace of all objects."
  type        = string
  default     = "millrace"

  validation {
    condition     = can(regex("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", var.namespace))
    error_message = "A namespace has lower-case letters, digits and dashes, 63 at most."
  }
}

variable "images" {
  description = "The images made from terraform/kubernetes/Containerfile: one for each engine and one for the command line. The images contain the rules: a changed rule needs a new tag."
  type = object({
    flink   = string
    spark   = string
    streams = string
    cli     = string
  })

  validation {
    condition     = alltrue([for image in values(var.images) : can(regex("^[^\\s:@]+(:[0-9]+)?[^\\s:@]*(:[^\\s:@]+|@sha256:[0-9a-f]{64})$", image)) && !endswith(image, ":latest")])
    error_message = "Name each image with a tag or a digest, and not latest: a changed rule must change the tag."
  }
}

variable "kafka" {
  description = "The Kafka cluster for Strimzi to create."
  type = object({
    name          = optional(string, "millrace")
    version       = optional(string, "4.3.1")
    brokers       = optional(number, 3)
    cpu           = optional(string, "1")
    memory        = optional(string, "4Gi")
    storage_size  = optional(string, "100Gi")
    storage_class = optional(string)
  })
  default = {}
}

variable "hdfs_uri" {
  description = "URI of HDFS: hdfs://host:port."
  type        = string

  validation {
    condition     = can(regex("^hdfs://[^/@]+$", var.hdfs_uri))
    error_message = "Give hdfs://host:port, without a path."
  }
}

variable "webhdfs_url" {
  description = "WebHDFS URL of the same HDFS: http://host:port."
  type        = string

  validation {
    condition     = can(regex("^https?://[^/@]+$", var.webhdfs_url))
    error_message = "Give http://host:port, without a path and without a password in it."
  }
}

variable "hdfs_user" {
  description = "User who writes to HDFS."
  type        = string
  default     = "millrace"

  validation {
    condition     = can(regex("^[a-z_][a-z0-9_-]*$", var.hdfs_user))
    error_message = "A user's name has lower-case letters, digits, dashes and underscores."
  }
}

variable "hbase_thrift" {
  description = "HBase's Thrift server, as host:port."
  type        = string

  validation {
    condition     = can(regex("^[^:/@]+:[0-9]+$", var.hbase_thrift))
    error_message = "Give host:port."
  }
}

variable "networks" {
  description = "Servers that the network policies open to the jobs, besides Kafka: HDFS (NameNode and DataNodes), HBase, the Kubernetes API."
  type = map(object({
    cidrs = set(string)
    ports = set(number)
  }))
  default = {}
}

variable "operator_namespaces" {
  description = "Namespaces of the Flink and Spark operators."
  type        = set(string)
  default     = ["flink-operator", "spark-operator"]
}

variable "apply" {
  description = "Whether to apply the manifests with kubectl; false only renders them (terraform output -raw manifests), and removes what was applied as a destroy does."
  type        = bool
  default     = false
}

variable "kubectl" {
  description = "Path of kubectl."
  type        = string
  default     = "kubectl"

  validation {
    condition     = length(var.kubectl) > 0
    error_message = "Give the path of kubectl, or its name if it is on PATH."
  }
}

variable "context" {
  description = "The context of the kubeconfig; null: the current one. With another one, the jobs leave the old cluster first."
  type        = string
  default     = null
}

variable "keep_data" {
  description = "Whether a destroy keeps the namespace, Kafka and the topics, and removes only the jobs. Apply a change before the destroy."
  type        = bool
  default     = true
}
