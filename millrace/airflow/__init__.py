"""Operators, triggers, forms and the report page, with which Airflow calls the verbs.

Airflow orchestrates and is never in the data path: its processes import no engine and no client of one. A task runs the
command line as a process, in an environment of its own, and reads one JSON object from it.
"""
