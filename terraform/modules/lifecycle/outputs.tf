output "because" {
  description = "Verb -> the differences at its last call."
  value       = { provision = module.provision.because, deploy = module.deploy.because }
}

output "verdict" {
  description = "A new value after each validation; null without validation."
  value       = one(module.validate[*].id)
}
