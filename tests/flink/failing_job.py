"""A job for Flink's own environment that divides by zero now and then, and completes checkpoints in between."""

import sys

from pyflink.table import EnvironmentSettings, TableEnvironment

(rest_port,) = sys.argv[1:]
table_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
settings = {
    "pipeline.name": "failing",
    "parallelism.default": "1",
    "execution.target": "remote",
    "rest.address": "127.0.0.1",
    "rest.port": rest_port,
    "execution.checkpointing.interval": "50 ms",
    "execution.checkpointing.min-pause": "0 ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1000",
    "restart-strategy.fixed-delay.delay": "10 ms",
}
for name, value in settings.items():
    table_env.get_config().set(name, value)
table_env.execute_sql(
    "CREATE TABLE numbers (number BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100', "
    "'fields.number.min' = '1', 'fields.number.max' = '50')"
)
table_env.execute_sql("CREATE TABLE nowhere (number BIGINT) WITH ('connector' = 'blackhole')")
print(table_env.execute_sql("INSERT INTO nowhere SELECT 1 / (number - 1) FROM numbers").get_job_client().get_job_id())
