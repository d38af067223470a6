"""Run by Airflow's own interpreter: how a task takes what a command answers; prints one result for each.

The last are what the first task of a proof raises for each form, whatever MILLRACE_TARGET holds.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def main(command: str, cases: str, forms: str) -> None:
    from millrace.airflow.command import Millrace

    results = []
    for case in json.loads(cases):
        Path(command).with_name("answer").write_text(case["answer"])
        environment = {"CODE": str(case["code"]), "PATH": "/usr/bin:/bin"}
        saying = Millrace((command,), environment).start(["provision", "flink"])
        try:
            results.append({"answer": saying.finish(lambda line: None)})
        except Exception as error:
            results.append({"raised": type(error).__name__, "message": str(error)})
        finally:
            saying.stop()
    print("\n" + json.dumps([*results, *first_task("prove-flink", json.loads(forms))]))


def first_task(dag_id: str, forms: list[dict[str, Any]]) -> Iterator[dict[str, str]]:
    from airflow.dag_processing.dagbag import DagBag
    from describe import rendered

    from millrace.airflow import operators
    from millrace.airflow.command import millrace

    dag = DagBag("dags").dags[dag_id]
    task = dag.get_task("form")
    task.words, task.when = rendered(task), "True"
    operators.connected = lambda: millrace(None)  # no Airflow runs that could be asked for a connection
    for params in forms:
        try:
            task.execute({"params": params})
            yield {}
        except Exception as error:
            yield {"raised": type(error).__name__, "message": str(error)}


if __name__ == "__main__":
    main(*sys.argv[1:])
