terraform {
  required_version = ">= 1.9"
}

locals {
  # An error of a function here means that there is no such file: no observer was ever started, or it is gone.
  record = try(jsondecode(file("${var.state}/run/observer.json")), { pid = 0, started = -1, boot = "", fingerprint = "" })
  booted = try(trimspace(file("/proc/sys/kernel/random/boot_id")), "unknown")
  # Field 22 of proc(5) stat: with pid and boot it names one process for good.
  started = try(split(" ", regex("^.*\\) (.*)$", trimspace(file("/proc/${local.record.pid}/stat")))[0])[19], "none")
  # One that was started for other ports is none: a plan that cannot reach it would fail.
  is_mine = startswith(try(local.record.fingerprint, ""), "${var.port} ")
  is_up   = local.is_mine && local.booted == local.record.boot && local.started == tostring(local.record.started)
  query   = concat([for name in sort(var.patterns) : "pattern=${name}"], [for name in sort(var.services) : "service=${name}"])
  address = "http://127.0.0.1:${var.port}/observation?${join("&", local.query)}"

  answer = try(jsondecode(data.terraform_remote_state.observed.outputs.observation), { problem = "the observer does not run" })
  # An answer in another version than this module reads leaves the state unknown.
  version = try(local.answer.version, 0)
  problem = try(local.answer.problem, local.version == 1 ? null : "the observer answers in version ${local.version}, not 1")
  unknown = [for problem in [local.problem] : "the state is unknown: ${problem}" if problem != null]
}

# The observer publishes what it sees as a Terraform state. Data are read while planning and kept for the apply, which a
# function that reads files would not be.
data "terraform_remote_state" "observed" {
  backend = local.is_up ? "http" : "local"
  config  = local.is_up ? tomap({ address = local.address }) : tomap({ path = "${path.module}/nothing.json" })
}
