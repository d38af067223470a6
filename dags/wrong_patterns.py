"""Makes no DAG: what is wrong with a pattern file is an import error of this file, so Airflow keeps the other DAGs."""

from millrace.patterns import load_all

load_all()
