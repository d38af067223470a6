terraform {
  required_version = ">= 1.9"
}

locals {
  path    = "${var.project}/pipelines/declared.json"
  content = try(jsondecode(file(local.path)), {})
  version = try(local.content.version, 0)
  # As they were when the file was written, and as they are.
  before  = try(local.content.files, {})
  files   = { for name in fileset("${var.project}/pipelines", "*/patterns/*.yaml") : name => filesha256("${var.project}/pipelines/${name}") }
  changed = [for name in setunion(keys(local.before), keys(local.files)) : name if lookup(local.before, name, "") != lookup(local.files, name, "")]
  problem = (
    !fileexists(local.path) ? "is absent" :
    local.version != 2 ? "has version ${local.version}, not 2" :
    length(local.changed) > 0 ? "does not fit ${join(", ", local.changed)}" : null
  )
}
