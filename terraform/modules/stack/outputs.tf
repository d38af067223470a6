output "id" {
  description = "A new value after each start of servers: resources that refer to it are updated, too."
  value       = module.servers.id
}

output "addresses" {
  description = "Addresses of the servers, under the names of `millrace env`."
  value       = { for name, address in local.addresses : name => format(address.format, [for offset in address.ports : var.port_base + offset]...) }
}

output "web_pages" {
  description = "Web pages of the services that run."
  value       = { for service, page in var.declared.web_pages : service => format(page.format, [for offset in page.ports : var.port_base + offset]...) if contains(local.services, service) }
}

output "observer_port" {
  description = "Address of the observer."
  value       = var.port_base + var.declared.observer
}

output "because" {
  description = "The differences at the last start of servers, or that a plan has found."
  value       = module.servers.because
}
