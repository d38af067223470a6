variables {
  kafka_bootstrap = "127.0.0.1:20001"
  hdfs_uri        = "hdfs://127.0.0.1:20010"
  webhdfs_url     = "http://127.0.0.1:20011"
  hbase_thrift    = "127.0.0.1:20025"
  flink_rest_url  = "http://127.0.0.1:20030"
}

run "a_broker_without_a_port" {
  command = plan
  variables {
    kafka_bootstrap = "kafka"
  }
  expect_failures = [var.kafka_bootstrap]
}

run "hdfs_with_a_path" {
  command = plan
  variables {
    hdfs_uri = "hdfs://n:8020/data"
  }
  expect_failures = [var.hdfs_uri]
}

run "a_password_in_an_address" {
  command = plan
  variables {
    webhdfs_url = "http://me:secret@n:9870"
  }
  expect_failures = [var.webhdfs_url]
}

run "thrift_without_a_port" {
  command = plan
  variables {
    hbase_thrift = "hbase"
  }
  expect_failures = [var.hbase_thrift]
}

run "flink_with_a_path" {
  command = plan
  variables {
    flink_rest_url = "http://f:8081/jobs"
  }
  expect_failures = [var.flink_rest_url]
}

run "a_relative_flink_home" {
  command = plan
  variables {
    flink_home = "flink"
  }
  expect_failures = [var.flink_home]
}

run "a_master_that_is_not" {
  command = plan
  variables {
    spark_master = "spark://elsewhere.example.net:7077"
  }
  expect_failures = [var.spark_master]
}

run "traffic_that_the_servers_do_not_allow" {
  command = plan
  variables {
    traffic = { rate = 200 }
  }
  expect_failures = [var.traffic]
}

run "traffic_that_the_servers_allow" {
  command = plan
  variables {
    allow_traffic = true
    traffic       = { rate = 200 }
  }
}

run "a_nimbus_without_a_port" {
  command = plan
  variables {
    storm_nimbus = "nimbus"
  }
  expect_failures = [var.storm_nimbus]
}

run "a_pattern_on_storm_without_its_nimbus" {
  command = plan
  variables {
    patterns = ["storm"]
  }
  expect_failures = [var.storm_nimbus]
}

run "a_zookeeper_without_a_port" {
  command = plan
  variables {
    storm_zookeeper = "zookeeper"
  }
  expect_failures = [var.storm_zookeeper]
}

run "a_pattern_on_storm_with_its_addresses_and_its_transactions" {
  command = plan
  variables {
    patterns        = ["storm", "storm-exactly-once"]
    storm_nimbus    = "127.0.0.1:20081"
    storm_zookeeper = "127.0.0.1:20080"
  }
  assert {
    condition     = output.addresses.STORM_NIMBUS == "127.0.0.1:20081" && output.addresses.STORM_ZOOKEEPER == "127.0.0.1:20080"
    error_message = "The verbs should get the addresses of Storm: ${jsonencode(output.addresses)}"
  }
  assert {
    condition     = output.access["storm-exactly-once"]["storm-exactly-once-storm"].transactional_id == "storm-exactly-once-"
    error_message = "A job that writes in transactions needs the right to them: ${jsonencode(output.access)}"
  }
  assert {
    condition     = output.access["storm"]["storm-storm"].transactional_id == null && output.access["storm"]["storm-storm"].group == "storm"
    error_message = "Without transactions it needs its group alone: ${jsonencode(output.access)}"
  }
}
