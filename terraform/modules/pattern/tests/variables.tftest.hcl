variables {
  name = "flink"
  pattern = {
    title = "t", doc = "d", use = "fraud", partitions = 2
    stages = {
      events  = { engine = "flink", rules = ["spree"], parallelism = 1 }
      windows = { engine = "flink", rules = ["burst"] }
    }
    promises = { delivery = "at-least-once-with-ids", alert_latency_ms_p99 = 100 }
  }
}

run "a_name_with_a_dot" {
  command = plan
  variables {
    name = "a.b"
  }
  expect_failures = [var.name]
}

run "a_use_that_is_not" {
  command = plan
  variables {
    pattern = {
      title = "t", doc = "d", use = "frauds", partitions = 2
      stages = {
        events  = { engine = "flink", rules = ["spree"], parallelism = 1 }
        windows = { engine = "flink", rules = ["burst"] }
      }
      promises = { delivery = "at-least-once-with-ids", alert_latency_ms_p99 = 100 }
    }
  }
  expect_failures = [var.pattern]
}

run "no_partition" {
  command = plan
  variables {
    pattern = {
      title = "t", doc = "d", use = "fraud", partitions = 0
      stages = {
        events  = { engine = "flink", rules = ["spree"], parallelism = 0 }
        windows = { engine = "flink", rules = ["burst"] }
      }
      promises = { delivery = "at-least-once-with-ids", alert_latency_ms_p99 = 100 }
    }
  }
  expect_failures = [var.pattern]
}

run "more_instances_than_partitions" {
  command = plan
  variables {
    pattern = {
      title = "t", doc = "d", use = "fraud", partitions = 2
      stages = {
        events  = { engine = "flink", rules = ["spree"], parallelism = 3 }
        windows = { engine = "flink", rules = ["burst"] }
      }
      promises = { delivery = "at-least-once-with-ids", alert_latency_ms_p99 = 100 }
    }
  }
  expect_failures = [var.pattern]
}

run "flink_windows_behind_spark_events" {
  command = plan
  variables {
    pattern = {
      title = "t", doc = "d", use = "fraud", partitions = 2
      stages = {
        events  = { engine = "spark", rules = ["spree"], parallelism = 1 }
        windows = { engine = "flink", rules = ["burst"] }
      }
      promises = { delivery = "at-least-once-with-ids", alert_latency_ms_p99 = 100 }
    }
  }
  expect_failures = [var.pattern]
}

run "no_rule" {
  command = plan
  variables {
    pattern = {
      title = "t", doc = "d", use = "fraud", partitions = 2
      stages = {
        events  = { engine = "flink", rules = [], parallelism = 1 }
        windows = { engine = "flink", rules = ["burst"] }
      }
      promises = { delivery = "at-least-once-with-ids", alert_latency_ms_p99 = 100 }
    }
  }
  expect_failures = [var.pattern]
}
