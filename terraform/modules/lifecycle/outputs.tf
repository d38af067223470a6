output "verdict" {
  description = "Another one each time that the pattern was validated; null where it is not."
  value       = one(module.validate[*].id)
}
