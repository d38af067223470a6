"""The Spark session of a driver."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from millrace.engines.spark.tuning import SPARK_SETTINGS

# They warn of intended settings, at every start and for every query.
QUIET = (
    "org.apache.spark.scheduler.FairSchedulableBuilder",
    "org.apache.spark.scheduler.DAGScheduler",
    "org.apache.spark.sql.catalyst.util.SparkStringUtils",
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",
    "org.apache.hadoop.util.NativeCodeLoader",
)


def session(
    name: str,
    master: str,
    jars: Sequence[Path],
    settings: Mapping[str, str] | None = None,
    *,
    java_options: str = "",
) -> SparkSession:
    """A session with the Kafka connector and the kernel on its class path."""
    # Spark's Python must be the one of this environment, even if another one is first on PATH.
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1"}
    builder = SparkSession.builder.appName(name).master(master)
    if master.startswith("local") and jars and "PYSPARK_GATEWAY_PORT" not in os.environ:
        # As `spark.jars` they would be copied twice at each start. With spark-submit the JVM runs already.
        builder = builder.config("spark.driver.extraClassPath", os.pathsep.join(map(str, jars)))
    else:
        builder = builder.config("spark.jars", ",".join(map(str, jars)))
    for key, value in (SPARK_SETTINGS | dict(settings or {})).items():
        more = java_options if key == "spark.driver.extraJavaOptions" else ""
        builder = builder.config(key, f"{value} {more}".rstrip())
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    levels = spark._jvm.org.apache.logging.log4j
    for logger in QUIET:
        levels.core.config.Configurator.setLevel(logger, levels.Level.ERROR)
    return spark
