variable "kafka_bootstrap" {
  description = "Kafka's brokers, as host:port, with commas between."
  type        = string

  validation {
    condition     = can(regex("^[^:/@,]+:[0-9]+(,[^:/@,]+:[0-9]+)*$", var.kafka_bootstrap))
    error_message = "Give brokers as host:port,host:port."
  }
}

variable "hdfs_uri" {
  description = "HDFS as its clients address it, for checkpoints and Parquet."
  type        = string

  validation {
    condition     = can(regex("^hdfs://[^/@]+$", var.hdfs_uri))
    error_message = "Give hdfs://host:port, without a path."
  }
}

variable "webhdfs_url" {
  description = "The same HDFS over WebHDFS."
  type        = string

  validation {
    condition     = can(regex("^https?://[^/@]+$", var.webhdfs_url))
    error_message = "Give http://host:port, without a path and without a password in it."
  }
}

variable "hdfs_user" {
  description = "Who writes to HDFS; null is whoever runs Terraform."
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
  description = "A Flink home on this machine whose lib/ holds the cluster's jars, from which jobs are submitted; `millrace up` makes one at <state>/conf/flink."
  type        = string
  default     = null

  validation {
    condition     = var.flink_home == null ? true : startswith(var.flink_home, "/")
    error_message = "Give an absolute path."
  }
}

variable "spark_master" {
  description = "Spark's master; with local[2] each pattern's driver runs on this machine."
  type        = string
  default     = "local[2]"

  validation {
    condition     = can(regex("^(local(\\[[0-9*]+\\])?|spark://.+|yarn)$", var.spark_master))
    error_message = "Give local[N], spark://host:port or yarn."
  }
}

variable "patterns" {
  description = "The patterns to run: names of files in pipelines/*/patterns, without .yaml."
  type        = set(string)
  default     = ["flink-spark"]
}

variable "port_base" {
  description = "First of the hundred ports of which this machine's observer takes one (70); no server is started."
  type        = number
  default     = 20100
}

variable "validate" {
  description = "Whether an apply ends with a verdict on each pattern, and fails without a good one: there must have been traffic."
  type        = bool
  default     = false
}

variable "traffic" {
  description = "Invented events that are sent before each verdict; null sends none: on these servers others may be at work."
  type = object({
    rate    = optional(number, 200)
    seconds = optional(number, 10)
  })
  default = null

  validation {
    condition     = var.traffic == null || var.allow_traffic
    error_message = "These servers get no invented traffic unless allow_traffic is true: others may take it for real events."
  }
}

variable "allow_traffic" {
  description = "Whether invented events may be sent to these servers, by `traffic` or by hand."
  type        = bool
  default     = false
}

variable "keep_data" {
  description = "Whether a destroy leaves topics, tables and files. Apply a change of this before you destroy."
  type        = bool
  default     = true
}

variable "state" {
  description = "The folder for what this machine must remember of the jobs; null is .millrace/existing in the clone."
  type        = string
  default     = null
}

variable "home" {
  description = "The folder of downloads that all stacks share; null is what the command line takes by itself."
  type        = string
  default     = null
}

variable "cli" {
  description = "The command line of millrace; null is the clone's own, made by `make setup`."
  type        = string
  default     = null
}
