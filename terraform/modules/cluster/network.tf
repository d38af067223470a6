locals {
  # Strimzi keeps its own policies for Kafka's pods; these are for the jobs' pods.
  policies = [
    {
      apiVersion = "networking.k8s.io/v1"
      kind       = "NetworkPolicy"
      metadata   = { name = "jobs-nothing", namespace = var.namespace, labels = local.labels }
      spec       = { podSelector = { matchLabels = local.jobs }, policyTypes = ["Ingress", "Egress"] }
    },
    {
      apiVersion = "networking.k8s.io/v1"
      kind       = "NetworkPolicy"
      metadata   = { name = "jobs-among-themselves", namespace = var.namespace, labels = local.labels }
      spec = {
        podSelector = { matchLabels = local.jobs }
        policyTypes = ["Ingress", "Egress"]
        ingress     = [{ from = [{ podSelector = { matchLabels = local.jobs } }] }]
        egress      = [{ to = [{ podSelector = { matchLabels = local.jobs } }] }]
      }
    },
    {
      apiVersion = "networking.k8s.io/v1"
      kind       = "NetworkPolicy"
      metadata   = { name = "jobs-from-operators", namespace = var.namespace, labels = local.labels }
      spec = {
        podSelector = { matchLabels = local.jobs }
        policyTypes = ["Ingress"]
        ingress = [for namespace in sort(var.operator_namespaces) : {
          from  = [{ namespaceSelector = { matchLabels = { "kubernetes.io/metadata.name" = namespace } } }]
          ports = [{ protocol = "TCP", port = 8081 }, { protocol = "TCP", port = 4040 }]
        }]
      }
    },
    {
      apiVersion = "networking.k8s.io/v1"
      kind       = "NetworkPolicy"
      metadata   = { name = "jobs-to-servers", namespace = var.namespace, labels = local.labels }
      spec = {
        podSelector = { matchLabels = local.jobs }
        policyTypes = ["Egress"]
        egress = concat(
          [
            {
              to    = [{ podSelector = { matchLabels = local.of_kafka } }]
              ports = [{ protocol = "TCP", port = 9092 }]
            },
            {
              to    = [{ namespaceSelector = { matchLabels = { "kubernetes.io/metadata.name" = "kube-system" } } }]
              ports = [{ protocol = "UDP", port = 53 }, { protocol = "TCP", port = 53 }]
            },
          ],
          # HDFS, HBase and the Kubernetes API are known by address only.
          [for name, server in var.servers : {
            to    = [for cidr in sort(server.cidrs) : { ipBlock = { cidr = cidr } }]
            ports = [for port in sort(server.ports) : { protocol = "TCP", port = tonumber(port) }]
          }],
        )
      }
    },
  ]
}
