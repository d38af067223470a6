terraform {
  required_version = ">= 1.9"
}

locals {
  clone  = abspath("${path.module}/../..")
  chosen = module.declared.all.patterns

  cli   = coalesce(var.cli, "${local.clone}/.venv/bin/millrace")
  state = abspath(coalesce(var.state, "${local.clone}/.millrace/existing"))

  on_storm = [for name, pattern in local.chosen : name if contains(keys(pattern.jobs), "storm")]

  addresses = { for name, address in {
    KAFKA_BOOTSTRAP   = var.kafka_bootstrap
    HDFS_URI          = var.hdfs_uri
    WEBHDFS_URL       = var.webhdfs_url
    HDFS_USER         = var.hdfs_user
    HBASE_THRIFT_HOST = split(":", var.hbase_thrift)[0]
    HBASE_THRIFT_PORT = split(":", var.hbase_thrift)[1]
    FLINK_REST_URL    = var.flink_rest_url
    FLINK_HOME        = var.flink_home
    FLINK_CONF_DIR    = var.flink_home == null ? null : "${var.flink_home}/conf"
    HADOOP_CONF_DIR   = var.flink_home == null ? null : "${var.flink_home}/conf"
    SPARK_MASTER      = var.spark_master
    STORM_NIMBUS      = var.storm_nimbus
    STORM_ZOOKEEPER   = var.storm_zookeeper
  } : name => address if address != null }

  environment = merge(
    {
      MILLRACE_STATE     = local.state
      MILLRACE_PORT_BASE = tostring(var.port_base)
      MILLRACE_PROJECT   = local.clone
      MILLRACE_TARGET    = jsonencode({ addresses = local.addresses, allow_traffic = var.allow_traffic })
    },
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
}

module "stack" {
  source      = "../modules/stack"
  declared    = module.declared.all.stack
  cli         = local.cli
  environment = local.environment
  port_base   = var.port_base
  services    = []
  differences = module.observed.servers
  note        = lookup(module.observed.notes, "stack", null)
}

module "pattern" {
  source   = "../modules/pattern"
  for_each = local.chosen
  declared = each.value
}

module "lifecycle" {
  source      = "../modules/lifecycle"
  for_each    = local.chosen
  pattern     = each.key
  topics      = module.pattern[each.key].topics
  tables      = module.pattern[each.key].tables
  jobs        = module.pattern[each.key].jobs
  servers     = module.stack.id
  identity    = [var.flink_rest_url, var.spark_master, var.storm_nimbus]
  cli         = local.cli
  environment = local.environment
  validate    = var.validate
  traffic     = var.traffic
  keep_data   = var.keep_data
  notes       = module.observed.notes
  differences = {
    provision = module.observed.provision[each.key]
    deploy    = module.observed.deploy[each.key]
  }
  # Also when destroying: jobs are stopped while their servers run.
  depends_on = [module.stack]
}
