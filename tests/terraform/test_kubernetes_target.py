"""The target kubernetes: its manifests, judged by a real API server with the operators' own definitions.

Nothing runs there. The server checks every field of every object, and keeps them; no operator acts on them.
"""

import json
import os
from pathlib import Path

import pytest
import yaml

from millrace.machine import processes
from millrace.patterns import load
from tests.terraform import kube
from tests.terraform.conftest import TERRAFORM, Terraform
from tests.terraform.kube.server import ApiServer
from tests.terraform.test_modules import ON_KUBERNETES

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

EXAMPLE = f"-var-file={TERRAFORM / 'kubernetes' / 'terraform.tfvars.example'}"
# The newest Flink that the definitions in reach know; see docs/decisions.
FLINK_KNOWN = "v1_20"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, test_port_base: int):
    if not kube.is_built():
        said = "the Kubernetes API server is not built; `.venv/bin/python -m tests.terraform.kube` builds it"
        if os.environ.get("MILLRACE_REQUIRE_KUBE"):
            pytest.fail(said)
        pytest.skip(said)
    server = ApiServer(tmp_path_factory.mktemp("kubernetes") / "server", test_port_base + 700)
    try:
        server.start()
        for definition in sorted((kube.folder() / "crds").glob("*.yaml")):
            server.kubectl("apply", "--server-side", "--filename", str(definition))
        kinds = [line.split("/")[1] for line in server.kubectl("get", "crd", "--output", "name").split()]
        assert processes.wait_until(lambda: all(is_served(server, kind) for kind in kinds), 300), kinds
        yield server
    finally:
        server.stop()


def is_served(server: ApiServer, kind: str) -> bool:
    return "the server doesn't have a resource type" not in server.kubectl("get", kind, "-A", codes=(0, 1))


@pytest.fixture
def root(terraform_in, tmp_path: Path, server: ApiServer) -> Terraform:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f'#!/bin/sh\nexec "{kube.program()}" kubectl "$@"\n')
    kubectl.chmod(0o755)
    return terraform_in(
        TERRAFORM / "kubernetes", KUBECONFIG=str(server.config), TF_VAR_kubectl=str(kubectl), TF_VAR_apply="false"
    )


def rendered(root: Terraform, namespace: str) -> list[dict]:
    outputs = root.planned(EXAMPLE, "-var", f"patterns={json.dumps(ON_KUBERNETES)}", f"-var=namespace={namespace}")
    return list(yaml.safe_load_all(outputs["planned_values"]["outputs"]["manifests"]["value"]))


def taken(server: ApiServer, objects: list[dict], codes: tuple[int, ...] = (0,)) -> str:
    words = ("apply", "--server-side", "--validate=strict", "--field-manager=millrace", "--filename", "-")
    return server.kubectl(*words, stdin=yaml.safe_dump_all(objects), codes=codes)


def with_known_flink(objects: list[dict]) -> list[dict]:
    for each in objects:
        if each["kind"] == "FlinkDeployment":
            each["spec"]["flinkVersion"] = FLINK_KNOWN
    return objects


def test_every_object_of_every_pattern_is_taken_without_a_warning(root: Terraform, server: ApiServer):
    objects = with_known_flink(rendered(root, "whole"))
    kinds = {each["kind"] for each in objects}
    assert {
        "Kafka",
        "KafkaNodePool",
        "KafkaTopic",
        "KafkaUser",
        "FlinkDeployment",
        "SparkApplication",
        "Deployment",
    } <= kinds
    said = taken(server, objects)
    assert "Warning" not in said
    assert said.count("serverside-applied") == len(objects)
    # What is kept is what was sent: the server dropped no field.
    server.kubectl(
        "diff", "--server-side", "--field-manager=millrace", "--filename", "-", stdin=yaml.safe_dump_all(objects)
    )


def test_the_only_thing_refused_is_the_name_of_the_flink_version(root: Terraform, server: ApiServer):
    objects = rendered(root, "whole")
    flinks = [each for each in objects if each["kind"] == "FlinkDeployment"]
    taken(server, [each for each in objects if each["kind"] == "Namespace"])
    said = taken(server, flinks, codes=(1,))
    refusals = [line for line in said.splitlines() if "is invalid" in line]
    assert len(refusals) == len(flinks)
    assert all('spec.flinkVersion: Unsupported value: "v2_3"' in line for line in refusals), said


@pytest.mark.parametrize(
    ("kind", "spoil"),
    [
        ("KafkaTopic", lambda spec: spec.update(partition=3)),
        ("Kafka", lambda spec: spec["kafka"]["listeners"][0].update(type="outernal")),
        ("KafkaUser", lambda spec: spec["authorization"].update(type="complicated")),
        ("FlinkDeployment", lambda spec: spec["job"].update(upgradeMode="hopeful")),
        ("SparkApplication", lambda spec: spec.update(restartPolicy={"type": "Sometimes"})),
        ("Deployment", lambda spec: spec["strategy"].update(type="Replace")),
        ("NetworkPolicy", lambda spec: spec.update(policyTypes=["Sidegress"])),
    ],
)
def test_a_spoilt_object_is_refused(root: Terraform, server: ApiServer, kind: str, spoil):
    objects = with_known_flink(rendered(root, "spoilt"))
    taken(server, [each for each in objects if each["kind"] == "Namespace"])
    one = next(each for each in objects if each["kind"] == kind)
    spoil(one["spec"])
    assert "serverside-applied" not in taken(server, [one], codes=(1,))


def test_the_pods_of_the_jobs_satisfy_restricted_pod_security(root: Terraform, server: ApiServer):
    objects = rendered(root, "pods")
    taken(server, [each for each in objects if each["kind"] == "Namespace"])
    pods = [pod for each in objects for pod in pods_of(each)]
    stages = [load(name).pattern.stages for name in ON_KUBERNETES]
    used = [{s.events.engine, s.windowing.engine} | ({s.persist.engine} if s.persist else set()) for s in stages]
    assert len(pods) == len(used) + sum(map(len, used))  # provisioning for each pattern, and each of its jobs
    taken(server, pods)
    spoilt = pods[0]
    spoilt["metadata"]["name"] = "spoilt"
    spoilt["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    assert "violates PodSecurity" in taken(server, [spoilt], codes=(1,))


def pods_of(each: dict) -> list[dict]:
    """The pods that an operator would make, as far as the object defines them."""
    match each:
        case {"kind": "FlinkDeployment", "spec": {"podTemplate": {"spec": spec}, "image": image}}:
            containers = [container | {"image": image} for container in spec["containers"]]
            spec = spec | {"containers": containers}
        case {"kind": "SparkApplication", "spec": {"driver": driver, "image": image}}:
            container = {"name": "driver", "image": image, "securityContext": driver["securityContext"]}
            spec = {"containers": [container], "securityContext": driver["podSecurityContext"]}
        case {"kind": "Job" | "Deployment", "spec": {"template": {"spec": spec}}}:
            pass
        case _:
            return []
    meta = {"name": f"pod-{each['metadata']['name']}", "namespace": each["metadata"]["namespace"]}
    return [{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}]


def test_data_that_is_to_be_kept_again_is_kept_and_jobs_leave_a_namespace(root: Terraform, server: ApiServer):
    state = f"-state={root.kept / 'kept.tfstate'}"
    words = ["-auto-approve", "-no-color", "-input=false", state, EXAMPLE, "-var=apply=true"]
    words += ["-var", 'patterns=["spark"]', "-var=namespace=kept"]
    root.run("apply", *words, "-var=keep_data=false")
    root.run("apply", *words)
    assert "spark.alerts" in server.kubectl("get", "kafkatopics", "-n", "kept")
    root.run("apply", *words, "-var=namespace=moved")
    assert "spark.alerts" in server.kubectl("get", "kafkatopics", "-n", "kept")
    assert "No resources found" in server.kubectl("get", "sparkapplications", "-n", "kept")
    assert "spark-spark" in server.kubectl("get", "sparkapplications", "-n", "moved")
    root.run("destroy", *words, "-var=namespace=moved")


def test_terraform_applies_sees_no_change_shows_its_own_changes_and_keeps_data_when_destroyed(
    root: Terraform, server: ApiServer
):
    state = f"-state={root.kept / 'applied.tfstate'}"
    words = ["-no-color", "-input=false", state, EXAMPLE, "-var=apply=true", "-var=namespace=applied"]
    spark = ["-var", 'patterns=["spark"]']  # no Flink, whose version the definitions do not know
    root.run("apply", "-auto-approve", *words, *spark)
    assert "spark-spark" in server.kubectl("get", "sparkapplications", "-n", "applied")
    root.run("plan", "-detailed-exitcode", *words, *spark)

    server.kubectl(
        "patch", "kafkatopic", "spark.alerts", "-n", "applied", "--type=merge", "-p", '{"spec":{"partitions":9}}'
    )
    manifests = root.run("output", "-raw", state, "manifests")
    drift = server.kubectl("diff", "--server-side", "--force-conflicts", "-f", "-", stdin=manifests, codes=(1,))
    assert "-  partitions: 9" in drift
    assert "+  partitions: 2" in drift

    said = root.run(
        "plan",
        "-detailed-exitcode",
        *words,
        *spark,
        '-var=images={flink="f:2",spark="s:2",streams="k:2",cli="c:2"}',
        codes=(2,),
    )
    assert '# module.jobs["spark"].terraform_data.done must be replaced' in said
    assert '# module.topics["spark"]' not in said
    root.run("destroy", "-auto-approve", *words, *spark)
    assert "spark.alerts" in server.kubectl("get", "kafkatopics", "-n", "applied")
    assert "No resources found" in server.kubectl("get", "sparkapplications", "-n", "applied")
