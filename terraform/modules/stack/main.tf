terraform {
  required_version = ">= 1.9"
}

locals {
  services  = var.services == null ? toset(var.declared.default_services) : var.services
  starts    = length(local.services) > 0
  addresses = merge(var.declared.addresses, [for profile in sort(var.profiles) : var.declared.profiles[profile]]...)
  up = [concat(
    ["up", "--port-base", tostring(var.port_base)],
    flatten([for profile in length(var.profiles) > 0 ? sort(var.profiles) : ["none"] : ["--profile", profile]]),
    var.watch ? [] : ["--no-watch"],
    sort(local.services),
  )]
  unwatched = var.watch ? [] : [["watch", "--stop"]]
  down      = [concat(["down"], var.keep_data ? [] : ["--purge", "--yes"])]
}

module "servers" {
  source  = "../verb"
  name    = "stack"
  program = var.cli
  apply   = concat(local.starts ? concat(local.up, local.unwatched) : [], [["observe", "--serve"]])
  destroy = concat([["observe", "--stop"]], local.starts ? local.down : [])
  # A stack that moves or takes another form must be stopped in its old one.
  identity    = { port_base = var.port_base, profiles = sort(var.profiles), state = var.environment.MILLRACE_STATE }
  wanted      = { services = sort(local.services), watch = var.watch, target = try(var.environment.MILLRACE_TARGET, null) }
  differences = var.differences
  note        = var.note
  environment = var.environment
}
