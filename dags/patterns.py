"""Two DAGs for each pattern: one deploys it, the other proves it with traffic and shows the verdict."""

# Airflow imports only files in which it finds the words "dag" and "airflow".
from millrace.airflow.pattern_dags import deploy_and_prove
from millrace.patterns import readable

for variant in readable():
    deploy_and_prove(variant)
