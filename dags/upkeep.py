"""The DAGs of upkeep: reconcile, upgrade, compare, compact, teardown, and the replay of dead letters."""

# Airflow imports only files in which it finds the words "dag" and "airflow".
from millrace.airflow.upkeep_dags import upkeep
from millrace.patterns import readable

upkeep(readable())
