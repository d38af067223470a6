"""Run by Airflow's own interpreter: a whole run of a DAG in this process, without a scheduler; prints how it ended."""

import json
import sys


def main(folder: str, dag_id: str, conf: str) -> None:
    from airflow.dag_processing.dagbag import DagBag

    dag = DagBag(folder).get_dag(dag_id)
    dag.deadline = None  # Airflow 3.3.2 looks for it in the database, where only the dag-processor writes it
    run = dag.test(run_conf=json.loads(conf))
    tasks = {task.task_id: str(task.state) for task in run.get_task_instances() if task.map_index < 0}
    print("\n" + json.dumps({"state": str(run.state), "tasks": tasks}))


if __name__ == "__main__":
    main(*sys.argv[1:])
