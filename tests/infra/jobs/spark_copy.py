"""A small job for Spark's own environment: all that is in a topic, into Parquet files."""

import sys

from pyspark.sql import SparkSession

bootstrap, topic, folder, jars = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.driver.extraClassPath", f"{jars}/*")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
(
    spark.read.format("kafka")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("subscribe", topic)
    .load()
    .selectExpr("CAST(value AS STRING) AS value", "offset")
    .write.mode("overwrite")
    .parquet(folder)
)
values = [row.value for row in spark.read.parquet(folder).orderBy("offset").collect()]
print(",".join(values))
spark.stop()
