output "id" {
  description = "A new value after each call: resources that refer to it are updated, too."
  value       = terraform_data.done.id
}

output "because" {
  description = "The differences at the last calls; in a plan, the reason for the next calls."
  value       = terraform_data.done.triggers_replace.seen
}
