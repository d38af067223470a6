variable "name" {
  description = "Name of the HBase table."
  type        = string

  validation {
    condition     = can(regex("^[a-zA-Z0-9_][a-zA-Z0-9_.-]*$", var.name))
    error_message = "HBase takes letters, digits, dots, dashes and underscores, and begins with no dot or dash."
  }
}

variable "families" {
  description = "Column family -> how many versions of a cell it keeps."
  type = map(object({
    max_versions = optional(number, 1)
  }))

  validation {
    condition     = length(var.families) > 0 && alltrue([for name in keys(var.families) : can(regex("^[a-zA-Z0-9_]+$", name))])
    error_message = "A table has at least one family, named with letters, digits and underscores."
  }

  validation {
    condition     = alltrue([for family in values(var.families) : family.max_versions >= 1])
    error_message = "A family keeps at least one version."
  }
}
