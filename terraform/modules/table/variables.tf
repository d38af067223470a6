variable "declared" {
  description = "The table: column family -> number of versions of a cell."
  type = object({
    name     = string
    families = map(object({ max_versions = optional(number, 1) }))
  })
}
