output "id" {
  description = "Another one each time that the calls were made: whoever refers to it follows."
  value       = terraform_data.done.id
}
