terraform {
  required_version = ">= 1.9"
}

locals {
  clone  = abspath("${path.module}/../..")
  chosen = module.declared.all.patterns

  # What the patterns run on: the least that may be given, and not all of it is among the services by default.
  needed   = toset(flatten([for pattern in values(local.chosen) : pattern.services]))
  services = var.services == null ? setunion(module.declared.all.stack.default_services, local.needed) : var.services

  venv  = "${local.clone}/.venv/bin/millrace"
  cli   = coalesce(var.cli, fileexists(local.venv) ? local.venv : "millrace")
  state = abspath(coalesce(var.state, "${local.clone}/.millrace"))
  environment = merge(
    { MILLRACE_STATE = local.state, MILLRACE_PORT_BASE = tostring(var.port_base), MILLRACE_PROJECT = local.clone },
    var.home == null ? {} : { MILLRACE_HOME = abspath(var.home) },
  )
}

module "declared" {
  source   = "../modules/declared"
  project  = local.clone
  patterns = var.patterns
}

module "observed" {
  source   = "../modules/observed"
  state    = local.state
  port     = var.port_base + module.declared.all.stack.observer
  patterns = toset(keys(local.chosen))
  services = local.services
}

module "stack" {
  source      = "../modules/stack"
  declared    = module.declared.all.stack
  cli         = local.cli
  environment = local.environment
  port_base   = var.port_base
  services    = local.services
  profiles    = var.profiles
  watch       = var.watch
  keep_data   = var.keep_data
  differences = module.observed.servers
  note        = lookup(module.observed.notes, "stack", null)
}

module "pattern" {
  source   = "../modules/pattern"
  for_each = local.chosen
  declared = each.value
}

module "lifecycle" {
  source         = "../modules/lifecycle"
  for_each       = local.chosen
  pattern        = each.key
  topics         = module.pattern[each.key].topics
  tables         = module.pattern[each.key].tables
  jobs           = module.pattern[each.key].jobs
  servers        = module.stack.id
  cli            = local.cli
  environment    = local.environment
  validate       = var.validate
  traffic        = var.traffic
  keep_data      = var.keep_data
  servers_go_too = true
  notes          = module.observed.notes
  differences = {
    provision = module.observed.provision[each.key]
    deploy    = module.observed.deploy[each.key]
  }
  # Also when destroying: jobs are stopped while their servers run.
  depends_on = [module.stack]
}
