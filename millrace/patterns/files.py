"""The Parquet of a pattern, for whoever reads it: what a name of a file says."""

REPLACED = "_replaced-"
"""A file `_replaced-NAME` lists the files whose rows are all in NAME: where NAME is there, they do not count."""
