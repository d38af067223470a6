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

output "job_manifests" {
  description = "The jobs as Kubernetes objects, where a platform is given."
  value       = flatten([for job in module.job : job.manifests])
}

output "access" {
  description = "User -> topic -> operations: of the jobs, of the edge that brings events in, of those who read what comes out."
  value = { for user in distinct(flatten([for topic in module.topic : keys(topic.access)])) : user => {
    for topic in module.topic : topic.declared.name => topic.access[user] if contains(keys(topic.access), user)
  } }
}
