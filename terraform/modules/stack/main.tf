terraform {
  required_version = ">= 1.9"
}

locals {
  host   = "127.0.0.1"
  starts = length(var.services) > 0
  up = [concat(
    ["up", "--port-base", tostring(var.port_base)],
    flatten([for profile in length(var.profiles) > 0 ? sort(var.profiles) : ["none"] : ["--profile", profile]]),
    var.watch ? [] : ["--no-watch"],
    sort(var.services),
  )]
  down = [concat(["down"], var.keep_data ? [] : ["--purge", "--yes"])]
}

module "servers" {
  source  = "../verb"
  name    = "stack"
  program = var.cli
  apply   = concat(local.starts ? local.up : [], [["observe", "--serve"]])
  destroy = concat([["observe", "--stop"]], local.starts ? local.down : [])
  # A stack that moves or takes another form must be stopped in its old one.
  identity    = { port_base = var.port_base, profiles = sort(var.profiles), state = var.environment.MILLRACE_STATE }
  wanted      = { services = sort(var.services), target = try(var.environment.MILLRACE_TARGET, null) }
  differences = var.differences
  note        = var.note
  environment = var.environment
}
