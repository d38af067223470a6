variables {
  pattern = "flink"
  engine  = "flink"
  events  = ["spree"]
}

run "a_pattern_in_capitals" {
  command = plan
  variables {
    pattern = "Flink"
  }
  expect_failures = [var.pattern]
}

run "an_engine_that_is_not" {
  command = plan
  variables {
    engine = "storm"
  }
  expect_failures = [var.engine]
}

run "a_store_that_is_not" {
  command = plan
  variables {
    persist = ["s3"]
  }
  expect_failures = [var.persist]
}

run "no_instance" {
  command = plan
  variables {
    parallelism = 0
  }
  expect_failures = [var.parallelism]
}

run "no_partition" {
  command = plan
  variables {
    partitions = 0
  }
  expect_failures = [var.partitions]
}

run "a_flink_version_with_dots" {
  command = plan
  variables {
    kubernetes = {
      namespace = "millrace", service_account = "jobs", image = "i:1", use = "fraud", topics = {}, kafka_bootstrap = "k:9092"
      hdfs_uri  = "hdfs://n:8020", hdfs_user = "m", hbase_thrift = "h:9090", flink_version = "2.3"
    }
  }
  expect_failures = [var.kubernetes]
}

run "hdfs_with_a_path" {
  command = plan
  variables {
    kubernetes = {
      namespace = "millrace", service_account = "jobs", image = "i:1", use = "fraud", topics = {}, kafka_bootstrap = "k:9092"
      hdfs_uri  = "hdfs://n:8020/x", hdfs_user = "m", hbase_thrift = "h:9090"
    }
  }
  expect_failures = [var.kubernetes]
}

run "a_job_with_nothing_to_do" {
  command = plan
  variables {
    events = []
  }
  expect_failures = [terraform_data.job]
}
