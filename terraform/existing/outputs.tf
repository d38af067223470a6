output "addresses" {
  description = "Addresses of the servers."
  value       = local.addresses
}

output "topics" {
  description = "Pattern -> its topics."
  value       = { for name, pattern in module.pattern : name => sort([for topic in pattern.topics : topic.name]) }
}

output "access" {
  description = "Pattern -> user -> the rights that a Kafka with ACLs must grant: operations on topics, the consumer group of jobs, and with what transactional ids begin."
  value = { for name, pattern in module.pattern : name => { for user, topics in pattern.access : user => {
    topics           = topics
    group            = contains(local.chosen[name].outsiders, user) ? null : name
    transactional_id = lookup(pattern.transactional_ids, user, null)
  } } }
}

output "tail_alerts" {
  description = "Pattern -> the command that prints its alerts as they arrive."
  value       = { for name in keys(local.chosen) : name => "MILLRACE_STATE='${local.state}' MILLRACE_TARGET='${jsonencode(local.addresses)}' '${local.cli}' topics tail ${name} alerts" }
}

output "because" {
  description = "The differences that the last apply has removed, such as a killed server or a changed rule."
  value = merge(
    { stack = module.stack.because },
    { for name, lifecycle in module.lifecycle : name => lifecycle.because },
  )
}
