variable "declared" {
  description = "The table: column family -> how many versions of a cell it keeps."
  type = object({
    name     = string
    families = map(object({ max_versions = optional(number, 1) }))
  })
}
