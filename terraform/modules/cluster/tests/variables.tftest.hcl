run "a_name_too_long" {
  command = plan
  variables {
    name = "a-name-that-is-far-too-long-for-it"
  }
  expect_failures = [var.name]
}

run "a_namespace_in_capitals" {
  command = plan
  variables {
    namespace = "Millrace"
  }
  expect_failures = [var.namespace]
}

run "half_a_version" {
  command = plan
  variables {
    kafka_version = "4.3"
  }
  expect_failures = [var.kafka_version]
}

run "two_brokers" {
  command = plan
  variables {
    brokers = 2
  }
  expect_failures = [var.brokers]
}

run "processors_in_words" {
  command = plan
  variables {
    broker_cpu = "one"
  }
  expect_failures = [var.broker_cpu]
}

run "memory_without_a_unit" {
  command = plan
  variables {
    broker_memory = "4"
  }
  expect_failures = [var.broker_memory]
}

run "a_disk_in_megabytes" {
  command = plan
  variables {
    storage_size = "100Mi"
  }
  expect_failures = [var.storage_size]
}

run "an_operator_namespace_with_a_dot" {
  command = plan
  variables {
    operator_namespaces = ["flink.operator"]
  }
  expect_failures = [var.operator_namespaces]
}

run "a_network_that_is_a_host" {
  command = plan
  variables {
    servers = { hdfs = { cidrs = ["namenode"], ports = [8020] } }
  }
  expect_failures = [var.servers]
}

run "a_port_too_large" {
  command = plan
  variables {
    servers = { hdfs = { cidrs = ["10.1.0.0/16"], ports = [80200] } }
  }
  expect_failures = [var.servers]
}
