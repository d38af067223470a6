terraform {
  required_version = ">= 1.9"
}

locals {
  pipe = var.stdin == null ? "" : "printf '%s' \"$MILLRACE_STDIN\" | "
  calls = { for when, calls in { apply = var.apply, destroy = var.destroy == null ? [] : var.destroy } : when => [for words in calls : {
    shown = "echo '+ ${replace(join(" ", concat([basename(var.program)], words)), "'", "")}'"
    # A pipe's exit code is its last program's: the call's.
    made = "${local.pipe}${join(" ", [for word in concat([var.program], words) : "'${replace(word, "'", "'\\''")}'"])}"
  }] }
  # Even nothing is a command: without one a destroy that becomes empty would be run, at once.
  undoing     = length(local.calls.destroy) == 0 ? "true" : join(" && ", flatten([for call in local.calls.destroy : [call.shown, call.made]]))
  environment = merge(var.environment, var.stdin == null ? {} : { MILLRACE_STDIN = var.stdin })

  # A repair leaves this text as a note, which comes back with the next observation: so a second
  # plan finds what it left. Two losses of the same thing must be two texts, also within a second.
  found = "${plantimestamp()}: ${join("; ", var.differences)}"
  seen  = length(var.differences) == 0 ? coalesce(var.note, "as declared") : local.found == var.note ? "${local.found}, again" : local.found
}

# Never replaced by a difference: to put things right nothing is torn down first.
resource "terraform_data" "undo" {
  count            = var.destroy == null ? 0 : 1
  triggers_replace = var.identity
  input = {
    command     = local.undoing
    environment = local.environment
    or_go_on    = var.destroy_or_go_on
  }

  provisioner "local-exec" {
    when        = destroy
    quiet       = true
    command     = "( ${self.input.command} )${self.input.or_go_on ? " || echo 'went on without it'" : ""}"
    environment = self.input.environment
  }
}

resource "terraform_data" "done" {
  triggers_replace = {
    wanted   = var.wanted
    identity = var.identity
    seen     = local.seen
  }

  provisioner "local-exec" {
    quiet       = true
    command     = <<-EOT
      set -e
      ${join("\n", flatten([for call in local.calls.apply : [call.shown, call.made]]))}
      if [ -n "$MILLRACE_STATE" ]; then
        mkdir -p "$MILLRACE_STATE/settled"
        printf '%s' "$MILLRACE_SEEN" > "$MILLRACE_STATE/settled/${var.name}"
      fi
    EOT
    environment = merge(local.environment, { MILLRACE_SEEN = self.triggers_replace.seen })
  }

  # Whatever the commands began can be undone, also when they fail half-way.
  depends_on = [terraform_data.undo]
}
