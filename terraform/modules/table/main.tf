terraform {
  required_version = ">= 1.9"
}

# What is declared of the table. `provision` makes it so; a change of it is the reason why.
resource "terraform_data" "table" {
  input = {
    name     = var.name
    families = var.families
  }
}
