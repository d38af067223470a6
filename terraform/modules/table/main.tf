terraform {
  required_version = ">= 1.9"
}

# `provision` creates the table, or changes it.
resource "terraform_data" "table" {
  input = var.declared
}
