locals {
  # Each broker is a controller too: for more than a handful of brokers they should be apart.
  pool = {
    apiVersion = "kafka.strimzi.io/v1"
    kind       = "KafkaNodePool"
    metadata   = { name = "${var.name}-dual", namespace = var.namespace, labels = merge(local.labels, local.of_kafka) }
    spec = {
      replicas = var.brokers
      roles    = ["controller", "broker"]
      storage = {
        type = "jbod"
        volumes = [merge(
          { id = 0, type = "persistent-claim", size = var.storage_size, deleteClaim = false, kraftMetadata = "shared" },
          var.storage_class == null ? {} : { class = var.storage_class },
        )]
      }
      resources = {
        requests = { cpu = var.broker_cpu, memory = var.broker_memory }
        limits   = { memory = var.broker_memory }
      }
    }
  }

  kafka = {
    apiVersion = "kafka.strimzi.io/v1"
    kind       = "Kafka"
    metadata   = { name = var.name, namespace = var.namespace, labels = local.labels }
    spec = {
      kafka = {
        version = var.kafka_version
        listeners = [
          {
            # Only for the jobs of this namespace, by the network policy of Strimzi's listener.
            name = "jobs"
            port = 9092
            type = "internal"
            tls  = false
            networkPolicyPeers = [
              { podSelector = { matchLabels = local.jobs } },
            ]
          },
          {
            # For all others: each needs a certificate, and its KafkaUser lists the permissions.
            name           = "tls"
            port           = 9093
            type           = "internal"
            tls            = true
            authentication = { type = "tls" }
          },
        ]
        authorization = { type = "simple", superUsers = ["ANONYMOUS"] }
        config = {
          "auto.create.topics.enable"                = false
          "default.replication.factor"               = local.replicas
          "min.insync.replicas"                      = max(1, local.replicas - 1)
          "offsets.retention.minutes"                = 568800 # as in millrace/servers/kafka.py
          "offsets.topic.replication.factor"         = local.replicas
          "transaction.state.log.replication.factor" = local.replicas
          "transaction.state.log.min.isr"            = max(1, local.replicas - 1)
        }
      }
      entityOperator = { topicOperator = {}, userOperator = {} }
    }
  }
}
