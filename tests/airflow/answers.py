"""Run by Airflow's own interpreter: how a task takes what a command answers; prints one result for each."""

import json
import sys
from pathlib import Path


def main(command: str, cases: str) -> None:
    from infra.airflow.command import Millrace

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
    print("\n" + json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
