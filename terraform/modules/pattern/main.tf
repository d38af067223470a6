terraform {
  required_version = ">= 1.9"
}

locals {
  use    = jsondecode(file("${path.module}/../../../pipelines/patterns/uses.json"))[var.pattern.use]
  stages = var.pattern.stages
  stores = try(local.stages.persist.to, [])

  # Who does what with a kind of topic; people and other systems write what is raw, and read the rest.
  events  = "${var.name}-${local.stages.events.engine}"
  windows = "${var.name}-${local.stages.windows.engine}"
  persist = try("${var.name}-${local.stages.persist.engine}", null)
  raw     = [for kind in keys(local.use.topics) : kind if !contains(["enriched", "alerts", "dead-letters", "windows", "hop"], kind)]
  readers = merge(
    { for kind in local.raw : kind => [local.events] },
    { enriched = compact([local.windows, local.persist]), alerts = compact([local.persist]) },
  )
  writers = {
    enriched       = [local.events]
    alerts         = [local.events, local.windows]
    "dead-letters" = compact([local.events, local.windows, local.persist])
    windows        = [local.windows]
  }

  engines = toset(compact([local.stages.events.engine, local.stages.windows.engine, try(local.stages.persist.engine, null)]))
}

module "topic" {
  source          = "../topic"
  for_each        = local.use.topics
  name            = "${var.name}.${each.key}"
  partitions      = each.value.single ? 1 : var.pattern.partitions
  retention_hours = var.pattern.retention_hours
  compacted       = each.value.compacted
  readers         = toset(lookup(local.readers, each.key, []))
  writers         = toset(lookup(local.writers, each.key, []))
  cluster         = var.cluster
}

module "table" {
  source   = "../table"
  for_each = contains(local.stores, "hbase") ? local.use.tables : {}
  name     = "${var.name}.${each.key}"
  families = each.value
}

module "job" {
  source      = "../job"
  for_each    = local.engines
  pattern     = var.name
  engine      = each.key
  events      = local.stages.events.engine == each.key ? local.stages.events.rules : []
  windows     = local.stages.windows.engine == each.key ? local.stages.windows.rules : []
  summaries   = local.stages.windows.engine == each.key ? local.stages.windows.summaries : []
  persist     = try(local.stages.persist.engine, "") == each.key ? local.stores : []
  parallelism = local.stages.events.parallelism
}
