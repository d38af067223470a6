"""Try the kernel's Stage as a task of Apache Samza 1.8.0, beside the declared job on Kafka Streams.

`python -m lab.choices.on_samza` takes the options of `lab.cost`, whose backlog and verdict these are. Maven downloads
Samza, which the product does not have.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from lab import cost, handwritten
from lab.cost import DECLARED, Side, declared_on_streams, in_a_jvm
from millrace.engines.streams.job import declaration
from millrace.engines.streams.tuning import HEAP_MB
from millrace.errors import InfraError
from millrace.patterns import EnginePlan
from millrace.servers.server import java
from millrace.settings import Settings
from millrace.target import Target

ON_SAMZA = "on Samza"
MAIN = "millrace.samza.OnSamza"
SOURCES = Path(__file__).parent / "samza"
DOWNLOADED_WITHIN_S = 600


def on_samza(target: Target, plan: EnginePlan) -> Side:
    """With the settings of the declared job that Samza has, too."""
    settings = target.settings
    job = settings.state / f"{plan.pattern}.json"
    job.write_text(json.dumps(declaration(plan, settings.state / "data" / plan.pattern)), encoding="utf-8")
    own = libraries(settings)
    class_path = [*own, ensure(settings, own)]
    return in_a_jvm(settings, plan, java(HEAP_MB, quick_start=False), class_path, MAIN, job)


def libraries(settings: Settings) -> list[Path]:
    """Samza's jars, as its pom here resolves them."""
    pom = SOURCES / "pom.xml"
    folder = settings.home / "samza" / hashlib.sha256(pom.read_bytes()).hexdigest()[:32]
    done = folder / "done"
    if not done.exists():
        words = ["mvn", "--batch-mode", "--quiet", "--strict-checksums", "--file", str(pom)]
        words += ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=DOWNLOADED_WITHIN_S)
        if ended.returncode:
            raise InfraError(f"Maven did not download Samza:\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
        done.touch()
    return sorted(folder.glob("*.jar"))


def ensure(settings: Settings, own: Sequence[Path]) -> Path:
    """The jar of the task."""
    kernel = settings.package / "kernel"
    # The classes used here are those that run with Samza's older clients, too.
    streams = handwritten.libraries(settings, "streams")
    return handwritten.built(
        settings,
        "on-samza",
        [*((kernel / part, own) for part in ("java", "stage/java")), (kernel / "kafka/java", streams), (SOURCES, own)],
    )


STARTS = {("streams", DECLARED): declared_on_streams, ("streams", ON_SAMZA): on_samza}


def main(argv: Sequence[str]) -> int:
    return cost.main(argv, STARTS, "cost-on-samza")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
