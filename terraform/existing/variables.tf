variable "kafka_bootstrap" {
  description = "Kafka's brokers, as host:port, separated by commas."
  type        = string

  validation {
    condition     = can(regex("^[^:/@,]+:[0-9]+(,[^:/@,]+:[0-9]+)*$", var.kafka_bootstrap))
    error_message = "Give brokers as host:port,host:port."
  }
}

variable "hdfs_uri" {
  description = "URI of HDFS, for checkpoints and Parquet: hdfs://host:port."
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
  description = "User who writes to HDFS; null: the user who runs Terraform."
  type        = string
  default     = null
}

variable "hbase_thrift" {
  description = "HBase's Thrift server, as host:port."
  type        = string

  validation {
    condition     = can(regex("^[^:/@]+:[0-9]+$", var.hbase_thrift))
    error_message = "Give host:port."
  }
}

variable "flink_rest_url" {
  description = "The REST address of a Flink session cluster."
  type        = string

  validation {
    condition     = can(regex("^https?://[^/@]+$", var.flink_rest_url))
    error_message = "Give http://host:port, without a path and without a password in it."
  }
}

variable "flink_home" {
  description = "A Flink home on this machine, with the cluster's jars in lib/; jobs are submitted from it. `millrace up` makes one at <state>/conf/flink."
  type        = string
  default     = null

  validation {
    condition     = var.flink_home == null ? true : startswith(var.flink_home, "/")
    error_message = "Give an absolute path."
  }
}

variable "spark_master" {
  description = "Spark's master. Each pattern's driver runs on this machine, and so must the cluster, if there is one."
  type        = string
  default     = "local"

  validation {
    condition     = can(regex("^(local(\\[[0-9*]+\\])?|spark://(127\\.0\\.0\\.1|localhost):[0-9]+)$", var.spark_master))
    error_message = "Give local, local[N] or spark://127.0.0.1:port: a driver listens on 127.0.0.1 only, where executors on other machines cannot reach it."
  }
}

variable "storm_nimbus" {
  description = "Nimbus of a Storm whose supervisor runs on this machine, as host:port; null: no pattern runs on Storm."
  type        = string
  default     = null

  validation {
    condition     = var.storm_nimbus == null ? true : can(regex("^[^:/@]+:[0-9]+$", var.storm_nimbus))
    error_message = "Give host:port."
  }

  validation {
    condition     = var.storm_nimbus != null || length(local.on_storm) == 0
    error_message = "${join(", ", local.on_storm)} runs on Storm: give the address of its Nimbus."
  }
}

variable "storm_zookeeper" {
  description = "A server of Storm's ZooKeeper, as host:port; a deployment is refused while it does not answer. Null: only Nimbus is checked."
  type        = string
  default     = null

  validation {
    condition     = var.storm_zookeeper == null ? true : can(regex("^[^:/@]+:[0-9]+$", var.storm_zookeeper))
    error_message = "Give host:port."
  }
}

variable "patterns" {
  description = "The patterns to run: names of files in pipelines/*/patterns, without .yaml."
  type        = set(string)
  default     = ["flink-spark"]
}

variable "port_base" {
  description = "First of 100 ports on this machine; only the observer uses one, at offset 70."
  type        = number
  default     = 20100
}

variable "validate" {
  description = "Whether an apply ends with a verdict on each pattern, and fails unless it is ok; the topics must have events."
  type        = bool
  default     = false
}

variable "traffic" {
  description = "Generated events to send before each verdict; null sends none. Requires allow_traffic."
  type = object({
    rate    = optional(number, 200)
    seconds = optional(number, 10)
  })
  default = null

  validation {
    condition     = var.traffic == null || var.allow_traffic
    error_message = "Generated traffic needs allow_traffic = true: consumers of these servers may take it for real events."
  }
}

variable "allow_traffic" {
  description = "Whether generated events may be sent to these servers, by `traffic` or by hand."
  type        = bool
  default     = false
}

variable "keep_data" {
  description = "Whether a destroy keeps topics, tables and files. Apply a change before the destroy."
  type        = bool
  default     = true
}

variable "state" {
  description = "State folder on this machine, with the record of deployments; null: .millrace/existing in the clone."
  type        = string
  default     = null
}

variable "home" {
  description = "Folder of downloads, shared by all stacks; null: the default of the command line."
  type        = string
  default     = null
}

variable "cli" {
  description = "The command line of millrace; null: that of the clone, from `make setup`."
  type        = string
  default     = null
}
