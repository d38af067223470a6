"""A real Kubernetes API server with the operators' object definitions, built from the registries and kept.

`python -m tests.terraform.kube` builds it, once: about 13 minutes of processor time. Go comes from the dependency group
`go`, whatever the machine has.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

from millrace.machine import environments
from millrace.settings import Settings

HERE = Path(__file__).parent
SPARK_OPERATOR = "github.com/kubeflow/spark-operator/v2@v2.5.2"
STRIMZI = {
    "kafkas": "io.strimzi.api.kafka.model.kafka.Kafka",
    "kafkanodepools": "io.strimzi.api.kafka.model.nodepool.KafkaNodePool",
    "kafkatopics": "io.strimzi.api.kafka.model.topic.KafkaTopic",
    "kafkausers": "io.strimzi.api.kafka.model.user.KafkaUser",
}
KUBERNETES = "v1.36.3"


def folder() -> Path:
    """Where what was built is kept: another source is another folder."""
    digest = hashlib.sha256()
    for name in ("main.go", "go.mod", "go.sum", "pom.xml", "__init__.py"):
        digest.update((HERE / name).read_bytes())
    return Settings.read(os.environ).home / "kube" / digest.hexdigest()[:16]


def program() -> Path:
    return folder() / "kube"


def is_built() -> bool:
    return program().exists()


def build() -> None:
    """Make the definitions and the program; other programs of the machine go first."""
    arriving = folder().with_suffix(".arriving")
    shutil.rmtree(arriving, ignore_errors=True)
    (arriving / "crds").mkdir(parents=True)
    _strimzi_and_flink(arriving)
    _spark(arriving)
    _go(
        [
            *("nice", "-n", "19", "go", "build", "-trimpath", "-buildvcs=false", "-o", str(arriving / "kube")),
            *("-ldflags", f"-s -w -X k8s.io/component-base/version.gitVersion={KUBERNETES}", "."),
        ],
        HERE,
        # One package at a time: two would take all of a small machine.
        {"GOFLAGS": "-p=1"},
    )
    shutil.rmtree(folder(), ignore_errors=True)
    arriving.rename(folder())


def _strimzi_and_flink(place: Path) -> None:
    jars = place / "jars"
    _run(
        [
            *("mvn", "--batch-mode", "--quiet", "--file", str(HERE / "pom.xml"), "dependency:copy-dependencies"),
            *(f"-DoutputDirectory={jars}", f"-Dmaven.repo.local={place / 'maven'}"),
        ],
        place,
    )
    # The generator takes no path but an absolute one.
    wanted = [f"{kind}={place.absolute() / 'crds' / f'{name}.yaml'}" for name, kind in STRIMZI.items()]
    _run(
        [
            *("java", "-cp", f"{jars}/*", "io.strimzi.crdgenerator.CrdGenerator", "--yaml"),
            *("--target-kube", "1.25+", *wanted),
        ],
        place,
    )
    [jar] = jars.glob("flink-kubernetes-operator-api-*.jar")
    with zipfile.ZipFile(jar) as packed:
        name = next(each for each in packed.namelist() if "flinkdeployments" in each and each.endswith("-v1.yml"))
        (place / "crds" / "flinkdeployments.yaml").write_bytes(packed.read(name))
    shutil.rmtree(jars)
    shutil.rmtree(place / "maven")


def _spark(place: Path) -> None:
    said = _go(["go", "mod", "download", "-json", SPARK_OPERATOR], place, {"GOFLAGS": "-mod=mod"})
    module = Path(json.loads(said)["Dir"])
    found = module / "config" / "crd" / "bases" / "sparkoperator.k8s.io_sparkapplications.yaml"
    (place / "crds" / "sparkapplications.yaml").write_bytes(found.read_bytes())


def _go(command: list[str], where: Path, variables: dict[str, str]) -> str:
    settings = Settings.read(os.environ)
    # Never another toolchain than the locked one: a go.mod that wants a newer one fails by its name.
    variables = environments.variables(settings) | {"GOTOOLCHAIN": "local"} | variables
    return _run([*environments.with_tool(settings, "go"), *command], where, variables)


def _run(command: list[str], where: Path, variables: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=where, env=variables, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout
