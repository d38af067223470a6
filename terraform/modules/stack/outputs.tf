output "id" {
  description = "Another one each time that servers were started: whoever needs them refers to it."
  value       = module.servers.id
}

output "addresses" {
  description = "Where clients find the servers, as `millrace env` names them."
  value       = { for name, address in local.addresses : name => format(address.format, [for offset in address.ports : var.port_base + offset]...) }
}

output "web_pages" {
  description = "What a person can look at, for the services that run."
  value       = { for service, page in var.declared.web_pages : service => format(page.format, [for offset in page.ports : var.port_base + offset]...) if contains(local.services, service) }
}

output "observer_port" {
  description = "Where the observer answers."
  value       = var.port_base + var.declared.observer
}

output "because" {
  description = "What was found when the servers were last started or looked at."
  value       = module.servers.because
}
