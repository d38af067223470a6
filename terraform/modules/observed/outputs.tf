output "servers" {
  description = "Problems of the servers, as sentences."
  value       = length(local.unknown) > 0 ? local.unknown : flatten(values(local.answer.servers))
}

output "provision" {
  description = "Pattern -> what `millrace provision` would change."
  value       = { for name in var.patterns : name => length(local.unknown) > 0 ? local.unknown : local.answer.provision[name] }
}

output "deploy" {
  description = "Pattern -> what `millrace deploy` would change."
  value       = { for name in var.patterns : name => length(local.unknown) > 0 ? local.unknown : local.answer.deploy[name] }
}

output "notes" {
  description = "The notes of the last repairs, by name."
  value       = length(local.unknown) > 0 ? {} : local.answer.settled
}
