terraform {
  required_version = ">= 1.9"
}

module "topic" {
  source   = "../topic"
  for_each = var.declared.topics
  declared = each.value
  cluster  = var.cluster
}

module "table" {
  source   = "../table"
  for_each = var.declared.tables
  declared = each.value
}

module "job" {
  source   = "../job"
  for_each = var.declared.jobs
  declared = each.value
  kubernetes = var.kubernetes == null ? null : merge(var.kubernetes, {
    image = lookup(var.kubernetes.images, each.key, "") # the job refuses an engine that has none
    plan  = each.value
  })
}
