output "topics" {
  description = "Kind of event -> all that is declared of its topic."
  value       = { for kind, topic in module.topic : kind => topic.declared }
}

output "tables" {
  description = "Table -> all that is declared of it."
  value       = { for name, table in module.table : name => table.declared }
}

output "jobs" {
  description = "Engine -> all that is declared of its job."
  value       = { for engine, job in module.job : engine => job.declared }
}

output "topic_manifests" {
  description = "The KafkaTopics, by kind of event, where a cluster is given."
  value       = { for kind, topic in module.topic : kind => topic.manifest if topic.manifest != null }
}

output "access" {
  description = "User -> topic -> operations."
  value = { for engine in local.engines : "${var.name}-${engine}" => {
    for topic in module.topic : topic.declared.name => topic.access["${var.name}-${engine}"] if contains(keys(topic.access), "${var.name}-${engine}")
  } }
}
