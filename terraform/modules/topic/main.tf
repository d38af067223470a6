terraform {
  required_version = ">= 1.9"
}

# `provision` creates the topic, or changes it.
resource "terraform_data" "topic" {
  input = var.declared
}
