output "id" {
  description = "Another one each time that the calls were made: whoever refers to it follows."
  value       = terraform_data.done.id
}

output "because" {
  description = "What was found when the calls were last made, and is the reason if a plan makes them again."
  value       = terraform_data.done.triggers_replace.seen
}
