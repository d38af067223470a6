terraform {
  required_version = ">= 1.9"
}

locals {
  use    = jsondecode(file("${path.module}/../../../pipelines/${var.pattern.use}/use.json"))
  stages = var.pattern.stages
  stores = try(local.stages.persist.to, [])

  # Who does what with a kind of topic: the jobs, the edge that brings events in, and those who read what comes out.
  edge    = "${var.name}-edge"
  reader  = "${var.name}-reader"
  events  = "${var.name}-${local.stages.events.engine}"
  windows = "${var.name}-${local.stages.windows.engine}"
  persist = try("${var.name}-${local.stages.persist.engine}", null)
  raw     = [for kind in keys(local.use.topics) : kind if !contains(["enriched", "alerts", "dead-letters", "windows", "hop"], kind)]
  readers = merge(
    { for kind in local.raw : kind => [local.events] },
    { for kind in ["dead-letters", "windows"] : kind => [local.reader] },
    { enriched = compact([local.windows, local.persist, local.reader]), alerts = compact([local.persist, local.reader]) },
  )
  writers = merge({ for kind in local.raw : kind => [local.edge] }, {
    enriched       = [local.events]
    alerts         = [local.events, local.windows]
    "dead-letters" = compact([local.events, local.windows, local.persist])
    windows        = [local.windows]
  })

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
  partitions  = var.pattern.partitions
  parallelism = local.stages.events.parallelism
  kubernetes = var.kubernetes == null ? null : merge(var.kubernetes, {
    image  = var.kubernetes.images[each.key]
    use    = var.pattern.use
    topics = { for kind in keys(local.use.topics) : kind => "${var.name}.${kind}" }
  })
}
