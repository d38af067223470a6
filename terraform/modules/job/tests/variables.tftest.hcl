variables {
  declared = { pattern = "flink", engine = "flink", events = ["spree"], windows = [], summaries = [], persist = [], partitions = 1, parallelism = 1 }
}

run "a_flink_version_with_dots" {
  command = plan
  variables {
    kubernetes = {
      namespace = "millrace", service_account = "jobs", image = "i:1", plan = { checkpoints = "/c", stores = null }, kafka_bootstrap = "k:9092"
      hdfs_uri  = "hdfs://n:8020", hdfs_user = "m", hbase_thrift = "h:9090", flink_version = "2.3"
    }
  }
  expect_failures = [var.kubernetes]
}

run "hdfs_with_a_path" {
  command = plan
  variables {
    kubernetes = {
      namespace = "millrace", service_account = "jobs", image = "i:1", plan = { checkpoints = "/c", stores = null }, kafka_bootstrap = "k:9092"
      hdfs_uri  = "hdfs://n:8020/x", hdfs_user = "m", hbase_thrift = "h:9090"
    }
  }
  expect_failures = [var.kubernetes]
}

run "a_job_with_nothing_to_do" {
  command = plan
  variables {
    declared = { pattern = "flink", engine = "flink", events = [], windows = [], summaries = [], persist = [], partitions = 1, parallelism = 1 }
  }
  expect_failures = [terraform_data.job]
}

run "an_engine_without_a_manifest_for_kubernetes" {
  command = plan
  variables {
    declared = { pattern = "storm-spark", engine = "storm", events = ["spree"], windows = [], summaries = [], persist = [], partitions = 1, parallelism = 1 }
    kubernetes = {
      namespace = "millrace", service_account = "jobs", image = "i:1", plan = { checkpoints = "/c", stores = null }, kafka_bootstrap = "k:9092"
      hdfs_uri  = "hdfs://n:8020", hdfs_user = "m", hbase_thrift = "h:9090"
    }
  }
  expect_failures = [terraform_data.job]
}
