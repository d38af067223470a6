terraform {
  required_version = ">= 1.9"
}

locals {
  clone  = abspath("${path.module}/../..")
  chosen = module.declared.all.patterns

  users = merge([for name, pattern in local.chosen : {
    for user in pattern.outsiders : user => {
      pattern          = name
      access           = module.pattern[name].access[user]
      transactional_id = lookup(module.pattern[name].transactional_ids, user, null)
    }
  }]...)

  # Objects of different kinds have different types, which JSON hides from a list.
  platform = [for object in module.cluster.manifests : yamlencode(object)]
  topics   = { for name, pattern in module.pattern : name => [for topic in values(pattern.topic_manifests) : yamlencode(topic)] }
  access   = { for name in keys(local.chosen) : name => [for user, each in local.users : yamlencode(module.user[user].manifest) if each.pattern == name] }
  jobs     = { for name, pattern in module.pattern : name => concat([yamlencode(local.provision[name])], [for job in pattern.job_manifests : yamlencode(job)]) }

  texts = {
    platform = join("---\n", local.platform)
    topics   = { for name in keys(local.chosen) : name => join("---\n", concat(local.topics[name], local.access[name])) }
    jobs     = { for name in keys(local.chosen) : name => join("---\n", local.jobs[name]) }
  }
}

module "cluster" {
  source              = "../modules/cluster"
  name                = var.kafka.name
  namespace           = var.namespace
  kafka_version       = var.kafka.version
  brokers             = var.kafka.brokers
  broker_cpu          = var.kafka.cpu
  broker_memory       = var.kafka.memory
  storage_size        = var.kafka.storage_size
  storage_class       = var.kafka.storage_class
  operator_namespaces = var.operator_namespaces
  servers             = var.networks
}

module "declared" {
  source   = "../modules/declared"
  project  = local.clone
  patterns = var.patterns
}

module "pattern" {
  source   = "../modules/pattern"
  for_each = local.chosen
  declared = each.value
  cluster  = module.cluster.cluster
  kubernetes = {
    namespace       = var.namespace
    service_account = module.cluster.service_account
    images          = var.images
    kafka_bootstrap = module.cluster.kafka_bootstrap
    hdfs_uri        = var.hdfs_uri
    hdfs_user       = var.hdfs_user
    hbase_thrift    = var.hbase_thrift
  }
}

module "user" {
  source           = "../modules/user"
  for_each         = local.users
  name             = each.key
  access           = each.value.access
  transactional_id = each.value.transactional_id
  cluster          = module.cluster.cluster
}

module "platform" {
  source   = "../modules/verb"
  count    = var.apply ? 1 : 0
  name     = "platform"
  program  = var.kubectl
  apply    = [local.apply]
  destroy  = var.keep_data ? [] : [local.delete]
  stdin    = local.texts.platform
  wanted   = { manifests = sha256(local.texts.platform) }
  identity = local.place
}

module "topics" {
  source     = "../modules/verb"
  for_each   = toset(var.apply ? keys(local.chosen) : [])
  name       = "topics.${each.key}"
  program    = var.kubectl
  apply      = [local.apply]
  destroy    = var.keep_data ? [] : [local.delete]
  stdin      = local.texts.topics[each.key]
  wanted     = { manifests = sha256(local.texts.topics[each.key]) }
  identity   = local.place
  depends_on = [module.platform]
}

module "jobs" {
  source     = "../modules/verb"
  for_each   = toset(var.apply ? keys(local.chosen) : [])
  name       = "jobs.${each.key}"
  program    = var.kubectl
  apply      = [local.apply]
  destroy    = [local.delete]
  stdin      = local.texts.jobs[each.key]
  wanted     = { manifests = sha256(local.texts.jobs[each.key]) }
  identity   = local.place
  depends_on = [module.topics]
}

locals {
  # Objects with other names, or elsewhere, are other objects: the old ones go first.
  place  = { context = var.context, namespace = var.namespace, kafka = var.kafka.name }
  at     = var.context == null ? [] : ["--context", var.context]
  apply  = concat(local.at, ["apply", "--server-side", "--field-manager=millrace", "-f", "-"])
  delete = concat(local.at, ["delete", "--ignore-not-found", "-f", "-"])
}
