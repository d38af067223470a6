output "because" {
  description = "Verb -> what was found when it was last called."
  value       = { provision = module.provision.because, deploy = module.deploy.because }
}

output "verdict" {
  description = "Another one each time that the pattern was validated; null where it is not."
  value       = one(module.validate[*].id)
}
