variable "declared" {
  description = "The table: column family -> its options, such as the number of versions of a cell."
  type = object({
    name     = string
    families = map(map(number))
  })
}
