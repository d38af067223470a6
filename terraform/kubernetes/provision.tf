# Tables, folders and contracts are no Kubernetes objects: `millrace provision` makes them, in a Job of the command
# line's image. It finds the topics that Strimzi made and leaves them as they are.
locals {
  provision_target = jsonencode({
    KAFKA_BOOTSTRAP   = module.cluster.kafka_bootstrap
    HDFS_URI          = var.hdfs_uri
    WEBHDFS_URL       = var.webhdfs_url
    HDFS_USER         = var.hdfs_user
    HBASE_THRIFT_HOST = split(":", var.hbase_thrift)[0]
    HBASE_THRIFT_PORT = split(":", var.hbase_thrift)[1]
  })
  provision = { for name, pattern in module.pattern : name => {
    apiVersion = "batch/v1"
    kind       = "Job"
    metadata = {
      # A Job cannot change: another pattern, image or address makes another Job.
      name      = "provision-${name}-${substr(sha256(jsonencode([pattern.topics, pattern.tables, var.images.cli, local.provision_target])), 0, 8)}"
      namespace = var.namespace
      labels    = { "app.kubernetes.io/part-of" = "millrace", "app.kubernetes.io/component" = "job", "millrace/pattern" = name }
    }
    spec = {
      backoffLimit            = 20
      ttlSecondsAfterFinished = 86400
      template = {
        metadata = { labels = { "app.kubernetes.io/part-of" = "millrace", "app.kubernetes.io/component" = "job", "millrace/pattern" = name } }
        spec = {
          restartPolicy                = "OnFailure"
          automountServiceAccountToken = false
          securityContext              = { runAsUser = 10001, runAsGroup = 10001, runAsNonRoot = true, seccompProfile = { type = "RuntimeDefault" } }
          containers = [{
            name  = "provision"
            image = var.images.cli
            args  = ["provision", name]
            env = [
              { name = "MILLRACE_STATE", value = "/tmp/millrace" },
              { name = "MILLRACE_TARGET", value = local.provision_target },
            ]
            resources       = { requests = { cpu = "100m", memory = "256Mi" }, limits = { memory = "512Mi" } }
            securityContext = { allowPrivilegeEscalation = false, capabilities = { drop = ["ALL"] } }
          }]
        }
      }
    }
  } }
}
