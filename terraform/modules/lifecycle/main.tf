terraform {
  required_version = ">= 1.9"
}

module "provision" {
  source           = "../verb"
  name             = "provision.${var.pattern}"
  program          = var.cli
  apply            = [["provision", var.pattern]]
  destroy          = [concat(["teardown", var.pattern], var.keep_data ? [] : ["--data", "--yes"])]
  destroy_or_go_on = var.servers_go_too
  wanted           = { topics = var.topics, tables = var.tables, servers = var.servers }
  identity         = var.identity
  differences      = var.differences.provision
  note             = lookup(var.notes, "provision.${var.pattern}", null)
  environment      = var.environment
}

module "deploy" {
  source      = "../verb"
  name        = "deploy.${var.pattern}"
  program     = var.cli
  apply       = [["deploy", var.pattern]]
  wanted      = { jobs = var.jobs, servers = var.servers }
  differences = var.differences.deploy
  note        = lookup(var.notes, "deploy.${var.pattern}", null)
  environment = var.environment
  depends_on  = [module.provision]
}

module "validate" {
  source  = "../verb"
  count   = var.validate ? 1 : 0
  name    = "validate.${var.pattern}"
  program = var.cli
  apply = concat(
    var.traffic == null ? [] : [["traffic", var.pattern, "--rate", tostring(var.traffic.rate), "--seconds", tostring(var.traffic.seconds)]],
    [["validate", var.pattern]],
  )
  wanted      = { provision = module.provision.id, deploy = module.deploy.id }
  note        = lookup(var.notes, "validate.${var.pattern}", null)
  environment = var.environment
}
