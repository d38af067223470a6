output "id" {
  description = "Another one each time that servers were started: whoever needs them refers to it."
  value       = module.servers.id
}

output "addresses" {
  description = "Where clients find the servers, as `millrace env` names them."
  value = {
    KAFKA_BOOTSTRAP   = join(",", [for node in range(1, contains(var.profiles, "three-brokers") || contains(var.profiles, "durable") ? 4 : 2) : "${local.host}:${var.port_base + node}"])
    HDFS_URI          = "hdfs://${local.host}:${var.port_base + 10}"
    WEBHDFS_URL       = "http://${local.host}:${var.port_base + 11}"
    HBASE_THRIFT_HOST = local.host
    HBASE_THRIFT_PORT = tostring(var.port_base + 25)
    FLINK_REST_URL    = "http://${local.host}:${var.port_base + 30}"
    SPARK_MASTER      = contains(var.profiles, "spark-cluster") ? "spark://${local.host}:${var.port_base + 40}" : "local[2]"
    AIRFLOW_URL       = "http://${local.host}:${var.port_base + 50}"
  }
}

output "web_pages" {
  description = "What a person can look at, for the services that run."
  value = { for service, page in {
    hdfs    = "http://${local.host}:${var.port_base + 11}"
    hbase   = "http://${local.host}:${var.port_base + 22}"
    flink   = "http://${local.host}:${var.port_base + 30}"
    airflow = "http://${local.host}:${var.port_base + 50}"
  } : service => page if contains(var.services, service) }
}

output "observer_port" {
  description = "Where the observer answers."
  value       = var.port_base + 70
}

output "because" {
  description = "What was found when the servers were last started or looked at."
  value       = module.servers.because
}
