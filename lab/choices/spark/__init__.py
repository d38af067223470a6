"""What runs in Spark's environment."""
