output "topics" {
  description = "Kind of event -> the declaration of its topic."
  value       = { for kind, topic in module.topic : kind => topic.declared }
}

output "tables" {
  description = "Table -> its declaration."
  value       = { for name, table in module.table : name => table.declared }
}

output "jobs" {
  description = "Engine -> the declaration of its job."
  value       = { for engine, job in module.job : engine => job.declared }
}

output "topic_manifests" {
  description = "The KafkaTopics, by kind of event; empty without a cluster."
  value       = { for kind, topic in module.topic : kind => topic.manifest if topic.manifest != null }
}

output "job_manifests" {
  description = "The jobs as Kubernetes objects; empty without a platform."
  value       = flatten([for job in module.job : job.manifests])
}

output "transactional_ids" {
  description = "User -> with what its transactional ids begin, for the jobs that write in transactions."
  value       = var.declared.transactional_ids
}

output "access" {
  description = "User -> topic -> operations, for the jobs, the producers of raw events and the consumers of results."
  value = { for user in distinct(flatten([for topic in module.topic : keys(topic.access)])) : user => {
    for topic in module.topic : topic.declared.name => topic.access[user] if contains(keys(topic.access), user)
  } }
}
