output "all" {
  description = "patterns: name -> topics, tables, jobs, services and transactional ids, of the chosen ones; stack: services, profiles, addresses of the local stack."
  value = {
    patterns = { for name, pattern in try(local.content.patterns, {}) : name => pattern if contains(var.patterns, name) }
    stack    = try(local.content.stack, null)
  }

  precondition {
    condition     = local.problem == null
    error_message = "${local.path} ${coalesce(local.problem, "fits")}: run `millrace declare` in ${var.project}."
  }

  precondition {
    condition     = local.problem != null || length(setsubtract(var.patterns, keys(try(local.content.patterns, {})))) == 0
    error_message = "There is no pattern ${join(", ", setsubtract(var.patterns, keys(try(local.content.patterns, {}))))}; there is: ${join(", ", keys(try(local.content.patterns, {})))}."
  }
}
