locals {
  account = {
    apiVersion                   = "v1"
    kind                         = "ServiceAccount"
    metadata                     = { name = "millrace-jobs", namespace = var.namespace, labels = local.labels }
    automountServiceAccountToken = true
  }

  # Flink's JobManager and Spark's driver make their own workers, and keep their leader in config maps.
  role = {
    apiVersion = "rbac.authorization.k8s.io/v1"
    kind       = "Role"
    metadata   = { name = "millrace-jobs", namespace = var.namespace, labels = local.labels }
    rules = [
      {
        apiGroups = [""]
        resources = ["pods", "configmaps", "services", "persistentvolumeclaims"]
        verbs     = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
      },
      {
        apiGroups = ["apps"]
        resources = ["deployments", "deployments/finalizers"]
        verbs     = ["get", "list", "watch", "create", "update", "patch", "delete"]
      },
    ]
  }

  binding = {
    apiVersion = "rbac.authorization.k8s.io/v1"
    kind       = "RoleBinding"
    metadata   = { name = "millrace-jobs", namespace = var.namespace, labels = local.labels }
    subjects   = [{ kind = "ServiceAccount", name = "millrace-jobs", namespace = var.namespace }]
    roleRef    = { apiGroup = "rbac.authorization.k8s.io", kind = "Role", name = "millrace-jobs" }
  }
}
