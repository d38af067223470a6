"""A small job for Flink's own environment: the numbers from 1 on, some each second, into a topic."""

import sys

from pyflink.table import EnvironmentSettings, TableEnvironment

bootstrap, topic, rest_port = sys.argv[1:]
table_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
table_env.get_config().set("pipeline.name", topic)
table_env.get_config().set("parallelism.default", "1")
table_env.get_config().set("execution.target", "remote")
table_env.get_config().set("rest.address", "127.0.0.1")
table_env.get_config().set("rest.port", rest_port)
table_env.get_config().set("execution.checkpointing.interval", "500 ms")
table_env.execute_sql(
    "CREATE TABLE numbers (number BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100', "
    "'fields.number.kind' = 'sequence', 'fields.number.start' = '1', 'fields.number.end' = '1000000')"
)
table_env.execute_sql(
    f"CREATE TABLE written (number BIGINT) WITH ('connector' = 'kafka', 'topic' = '{topic}', "
    f"'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json', 'sink.delivery-guarantee' = 'at-least-once')"
)
print(table_env.execute_sql("INSERT INTO written SELECT number FROM numbers").get_job_client().get_job_id())
