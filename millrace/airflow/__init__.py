"""What Airflow needs to say the verbs: operators, triggers, the form, and the page with the report.

Airflow orchestrates and is never in the data path: its processes import no engine and no client of one. A task says a
verb to the command line, which lives in an environment of its own, and reads one JSON answer.
"""
