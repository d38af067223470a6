# The job as the operators of Kubernetes read it, where a platform is given.
locals {
  on   = var.kubernetes
  name = "${var.declared.pattern}-${var.declared.engine}"

  # The plan that `millrace deploy` gives to the engine, with the addresses of this platform. What each rule means is in
  # the image, so a changed rule is a changed image.
  plan = local.on == null ? null : merge(local.on.plan, {
    bootstrap   = local.on.kafka_bootstrap
    checkpoints = "${local.on.hdfs_uri}${local.on.plan.checkpoints}"
    stores = local.on.plan.stores == null ? null : merge(local.on.plan.stores, {
      hdfs       = "${local.on.hdfs_uri}${local.on.plan.stores.hdfs}"
      hbase_host = split(":", local.on.hbase_thrift)[0]
      hbase_port = tonumber(split(":", local.on.hbase_thrift)[1])
    })
  })

  labels = {
    "app.kubernetes.io/part-of"   = "millrace"
    "app.kubernetes.io/component" = "job"
    "millrace/pattern"            = var.declared.pattern
  }
  own_labels = merge(local.labels, { "millrace/job" = local.name })
  metadata   = local.on == null ? null : { name = local.name, namespace = local.on.namespace, labels = local.labels }
  # HDFS without Kerberos takes the name that it is given.
  hdfs_user = { name = "HADOOP_USER_NAME", value = try(local.on.hdfs_user, "") }

  # The requirements of the "restricted" level of pod security.
  container_security = {
    allowPrivilegeEscalation = false
    capabilities             = { drop = ["ALL"] }
    runAsNonRoot             = true
    seccompProfile           = { type = "RuntimeDefault" }
  }
  plan_volume = { name = "plan", configMap = { name = "${local.name}-plan" } }
  plan_mount  = { name = "plan", mountPath = "/etc/millrace", readOnly = true }

  plan_manifest = local.on == null ? null : {
    apiVersion = "v1"
    kind       = "ConfigMap"
    metadata   = merge(local.metadata, { name = "${local.name}-plan" })
    data       = { "plan.json" = jsonencode(local.plan) }
  }

  flink_manifest = local.on == null || var.declared.engine != "flink" ? null : {
    apiVersion = "flink.apache.org/v1beta1"
    kind       = "FlinkDeployment"
    metadata   = local.metadata
    spec = {
      image           = local.on.image
      imagePullPolicy = "IfNotPresent"
      flinkVersion    = local.on.flink_version
      serviceAccount  = local.on.service_account
      flinkConfiguration = {
        "execution.checkpointing.dir"                     = local.plan.checkpoints
        "execution.checkpointing.savepoint-dir"           = "${local.plan.checkpoints}/savepoints"
        "execution.checkpointing.incremental"             = "true"
        "high-availability.type"                          = "kubernetes"
        "high-availability.storageDir"                    = "${local.plan.checkpoints}/ha"
        "kubernetes.operator.job.savepoint-on-deletion"   = "true"
        "restart-strategy.type"                           = "exponential-delay"
        "state.backend.type"                              = "rocksdb"
        "taskmanager.numberOfTaskSlots"                   = tostring(var.declared.parallelism)
        "classloader.parent-first-patterns.additional"    = "pemja."
        "kubernetes.operator.periodic.savepoint.interval" = "24h"
        # A lookup in a cache that is smaller than an index would read the whole index (decision 0070).
        "state.backend.rocksdb.memory.partitioned-index-filters" = "true"
        "state.backend.rocksdb.use-bloom-filter"                 = "true"
      }
      podTemplate = {
        apiVersion = "v1"
        kind       = "Pod"
        metadata = {
          labels = local.labels
          # The operator upgrades when the pod changes, and a changed plan alone would not change it.
          annotations = { "millrace/plan" = sha256(jsonencode(local.plan)) }
        }
        spec = {
          securityContext = { runAsUser = 9999, runAsGroup = 9999, fsGroup = 9999 }
          volumes         = [local.plan_volume]
          containers = [{
            name            = "flink-main-container"
            env             = [local.hdfs_user]
            securityContext = local.container_security
            volumeMounts    = [local.plan_mount]
          }]
        }
      }
      jobManager  = { replicas = 1, resource = { cpu = 1, memory = "1600m" } }
      taskManager = { resource = { cpu = local.on.flink_cpu, memory = local.on.flink_memory } }
      job = {
        # PyFlink's driver is in Flink's own opt/; it runs the module named behind -pym.
        jarURI      = "local:///opt/flink/opt/flink-python-${local.on.flink_release}.jar"
        entryClass  = "org.apache.flink.client.python.PythonDriver"
        args        = ["-pyclientexec", "/opt/millrace/venv/bin/python", "-pyexec", "/opt/millrace/venv/bin/python", "-pym", "millrace.engines.flink.job", "--plan", "@/etc/millrace/plan.json"]
        parallelism = var.declared.parallelism
        upgradeMode = "savepoint"
        state       = "running"
      }
    }
  }

  spark_pod = local.on == null ? null : {
    labels             = local.labels
    env                = [local.hdfs_user]
    volumeMounts       = [local.plan_mount]
    securityContext    = merge(local.container_security, { runAsUser = 185, runAsGroup = 185 })
    podSecurityContext = { fsGroup = 185, runAsNonRoot = true, seccompProfile = { type = "RuntimeDefault" } }
  }
  spark_manifest = local.on == null || var.declared.engine != "spark" ? null : {
    apiVersion = "sparkoperator.k8s.io/v1beta2"
    kind       = "SparkApplication"
    metadata   = local.metadata
    spec = {
      type                = "Python"
      pythonVersion       = "3"
      mode                = "cluster"
      image               = local.on.image
      imagePullPolicy     = "IfNotPresent"
      sparkVersion        = local.on.spark_release
      mainApplicationFile = "local:///opt/millrace/millrace/engines/spark/job.py"
      # The driver does all the work in its own pod, as it does on one machine; it requests no executors.
      arguments = [
        "--plan", "@/etc/millrace/plan.json", "--master", "local[${local.on.spark_cores}]",
        "--jars", "/opt/spark/jars/millrace-kernel.jar", "--progress", "/tmp/progress.json",
      ]
      # A streaming job must never end: after any end it restarts from its checkpoints.
      restartPolicy = { type = "Always", onFailureRetryInterval = 10, onSubmissionFailureRetryInterval = 30 }
      volumes       = [local.plan_volume]
      driver = merge(local.spark_pod, {
        cores          = local.on.spark_cores
        memory         = local.on.spark_memory
        serviceAccount = local.on.service_account
        annotations    = { "millrace/plan" = sha256(jsonencode(local.plan)) }
      })
      executor = { instances = 1 }
    }
  }

  streams_manifest = local.on == null || var.declared.engine != "streams" ? null : {
    apiVersion = "apps/v1"
    kind       = "Deployment"
    metadata   = local.metadata
    spec = {
      # One process has all partitions, with as many threads as the parallelism; its predecessor ends before it starts.
      replicas = 1
      strategy = { type = "Recreate" }
      selector = { matchLabels = { "millrace/job" = local.name } }
      template = {
        metadata = { labels = local.own_labels, annotations = { "millrace/plan" = sha256(jsonencode(local.plan)) } }
        spec = {
          serviceAccountName            = local.on.service_account
          terminationGracePeriodSeconds = 90
          securityContext               = { runAsUser = 10001, runAsGroup = 10001, fsGroup = 10001 }
          # State that is lost with the pod is restored from the changelog topics.
          volumes = [local.plan_volume, { name = "state", emptyDir = {} }]
          containers = [{
            name            = "streams"
            image           = local.on.image
            imagePullPolicy = "IfNotPresent"
            args            = ["--plan", "@/etc/millrace/plan.json", "--folder", "/var/millrace"]
            securityContext = local.container_security
            volumeMounts    = [local.plan_mount, { name = "state", mountPath = "/var/millrace" }]
            resources       = { requests = { cpu = tostring(local.on.streams_cpu), memory = local.on.streams_memory }, limits = { memory = local.on.streams_memory } }
          }]
        }
      }
    }
  }
}
