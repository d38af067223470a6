output "addresses" {
  description = "The servers that are used."
  value       = local.addresses
}

output "topics" {
  description = "Pattern -> its topics."
  value       = { for name, pattern in module.pattern : name => sort([for topic in pattern.topics : topic.name]) }
}

output "tail_alerts" {
  description = "Pattern -> the command that shows its alerts as they come."
  value       = { for name in keys(local.chosen) : name => "MILLRACE_STATE='${local.state}' MILLRACE_TARGET='${jsonencode(local.addresses)}' '${local.cli}' topics tail ${name} alerts" }
}

output "because" {
  description = "What was found when each part was last made true: a killed server, a changed rule."
  value = merge(
    { stack = module.stack.because },
    { for name, lifecycle in module.lifecycle : name => lifecycle.because },
  )
}
