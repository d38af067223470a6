variables {
  images       = { flink = "r/f:1", spark = "r/s:1", streams = "r/k:1", cli = "r/c:1" }
  hdfs_uri     = "hdfs://n:8020"
  webhdfs_url  = "http://n:9870"
  hbase_thrift = "h:9090"
}

run "a_namespace_in_capitals" {
  command = plan
  variables {
    namespace = "Millrace"
  }
  expect_failures = [var.namespace]
}

run "an_image_without_a_tag" {
  command = plan
  variables {
    images = { flink = "r/f", spark = "r/s:1", streams = "r/k:1", cli = "r/c:1" }
  }
  expect_failures = [var.images]
}

run "the_latest_image" {
  command = plan
  variables {
    images = { flink = "r/f:latest", spark = "r/s:1", streams = "r/k:1", cli = "r/c:1" }
  }
  expect_failures = [var.images]
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

run "a_user_in_capitals" {
  command = plan
  variables {
    hdfs_user = "Me"
  }
  expect_failures = [var.hdfs_user]
}

run "thrift_without_a_port" {
  command = plan
  variables {
    hbase_thrift = "hbase"
  }
  expect_failures = [var.hbase_thrift]
}

run "no_kubectl" {
  command = plan
  variables {
    kubectl = ""
  }
  expect_failures = [var.kubectl]
}
