variable "project" {
  description = "The folder with pipelines/: a clone, or a team's own repository."
  type        = string
}

variable "patterns" {
  description = "The patterns to run: names of files in pipelines/*/patterns, without .yaml."
  type        = set(string)
}
