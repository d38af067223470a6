output "addresses" {
  description = "Addresses of the servers."
  value       = module.stack.addresses
}

output "web_pages" {
  description = "Web pages of the servers."
  value       = module.stack.web_pages
}

output "topics" {
  description = "Pattern -> its topics."
  value       = { for name, pattern in module.pattern : name => sort([for topic in pattern.topics : topic.name]) }
}

output "tail_alerts" {
  description = "Pattern -> the command that prints its alerts as they arrive."
  value       = { for name in keys(local.chosen) : name => "MILLRACE_STATE='${local.state}' '${local.cli}' topics tail ${name} alerts" }
}

output "because" {
  description = "The differences that the last apply has removed, such as a killed server or a changed rule."
  value = merge(
    { stack = module.stack.because },
    { for name, lifecycle in module.lifecycle : name => lifecycle.because },
  )
}
