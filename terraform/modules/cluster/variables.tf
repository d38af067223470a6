variable "name" {
  description = "Name of the Kafka cluster."
  type        = string
  default     = "millrace"

  validation {
    condition     = can(regex("^[a-z]([a-z0-9-]{0,28}[a-z0-9])?$", var.name))
    error_message = "The cluster's name has lower-case letters, digits and dashes, 30 at most: it is part of other names."
  }
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

variable "kafka_version" {
  description = "Kafka's version; the installed Strimzi must support it."
  type        = string
  default     = "4.3.1"

  validation {
    condition     = can(regex("^[0-9]+\\.[0-9]+\\.[0-9]+$", var.kafka_version))
    error_message = "A version is three numbers with dots."
  }
}

variable "brokers" {
  description = "Number of brokers."
  type        = number
  default     = 3

  validation {
    condition     = contains([1, 3, 5, 7, 9], var.brokers)
    error_message = "Brokers are controllers too, so their number is odd: 1, 3, 5, 7 or 9."
  }
}

variable "broker_cpu" {
  description = "Processor request of each broker."
  type        = string
  default     = "1"

  validation {
    condition     = can(regex("^[0-9]+m?$", var.broker_cpu))
    error_message = "Give processors as Kubernetes does: 1 or 500m."
  }
}

variable "broker_memory" {
  description = "Memory of each broker."
  type        = string
  default     = "4Gi"

  validation {
    condition     = can(regex("^[0-9]+[MG]i$", var.broker_memory))
    error_message = "Give memory as Kubernetes does: 4Gi or 512Mi."
  }
}

variable "storage_size" {
  description = "Disk of each broker."
  type        = string
  default     = "100Gi"

  validation {
    condition     = can(regex("^[0-9]+[GT]i$", var.storage_size))
    error_message = "Give a size as Kubernetes does: 100Gi or 1Ti."
  }
}

variable "storage_class" {
  description = "Storage class of the disks; null is the cluster's default."
  type        = string
  default     = null
}

variable "operator_namespaces" {
  description = "Namespaces of the Flink and Spark operators, which query the jobs' web interfaces."
  type        = set(string)
  default     = ["flink-operator", "spark-operator"]

  validation {
    condition     = alltrue([for name in var.operator_namespaces : can(regex("^[a-z0-9-]+$", name))])
    error_message = "A namespace has lower-case letters, digits and dashes."
  }
}

variable "servers" {
  description = "Servers that the jobs need besides Kafka: name -> networks and ports."
  type = map(object({
    cidrs = set(string)
    ports = set(number)
  }))
  default = {}

  validation {
    condition     = alltrue(flatten([for server in values(var.servers) : [for cidr in server.cidrs : can(cidrhost(cidr, 0))]]))
    error_message = "Networks are given like 10.1.0.0/16."
  }

  validation {
    condition     = alltrue(flatten([for server in values(var.servers) : [for port in server.ports : port >= 1 && port <= 65535]]))
    error_message = "A port is a number from 1 to 65535."
  }
}
