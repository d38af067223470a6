"""The Terraform of every module and root: its own tests, its examples, and that it declares the same as Python."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from millrace import stack
from millrace.patterns import Stores, engine_plans, load, load_all, names
from millrace.settings import PROJECT, Settings
from millrace.stack.services import PROFILES
from millrace.verbs.provision import wanted_tables, wanted_topics
from tests.terraform.conftest import MODULES, ROOTS, TERRAFORM, resources

FOLDERS = [*MODULES, *ROOTS]
EXAMPLE = ["-var-file=terraform.tfvars.example"]
ALL = ["-var", f"patterns={json.dumps(names())}"]
ON_KUBERNETES = [name for name in names() if "storm" not in load(name).engines]
"""The patterns for whose jobs there are manifests."""


def name_of(folder: Path) -> str:
    return folder.name


def variables(folder: Path) -> dict[str, str]:
    """Each variable of a module with its block."""
    text = (folder / "variables.tf").read_text()
    return dict(re.findall(r'^variable "(\w+)" \{\n(.*?)^\}', text, re.MULTILINE | re.DOTALL))


def examples(folder: Path) -> str:
    return "\n".join(re.findall(r"```hcl\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL))


@pytest.mark.builds
@pytest.mark.parametrize("folder", FOLDERS, ids=name_of)
def test_its_own_suite_passes(terraform_in, folder):
    said = terraform_in(folder).run("test", "-no-color")
    assert re.search(r"Success! [1-9]\d* passed, 0 failed", said), said


@pytest.mark.parametrize("folder", FOLDERS, ids=name_of)
def test_every_variable_is_typed_and_described_and_each_validation_is_broken_by_a_test(folder):
    tests = "\n".join(path.read_text() for path in folder.glob("tests/*.tftest.hcl"))
    for variable, block in variables(folder).items():
        assert re.search(r"^  type +=", block, re.MULTILINE), variable
        assert re.search(r'^  description = ".+\."$', block, re.MULTILINE), variable
        validations = block.count("validation {")
        broken = len(re.findall(rf"expect_failures = \[var\.{variable}\]", tests))
        assert broken >= validations, f"{variable}: {validations} validations, {broken} tests that break them"


@pytest.mark.builds
@pytest.mark.parametrize("folder", MODULES, ids=name_of)
def test_the_examples_of_its_readme_plan_and_use_every_option(terraform_in, folder, tmp_path):
    text = examples(folder)
    unused = [name for name in variables(folder) if not re.search(rf"^  {name} +=", text, re.MULTILINE)]
    assert not unused
    place = tmp_path / "terraform" / "example"
    place.mkdir(parents=True)
    place.parent.joinpath("modules").symlink_to(TERRAFORM / "modules")
    for part in ("millrace", "pipelines"):
        tmp_path.joinpath(part).symlink_to(PROJECT / part)
    place.joinpath("main.tf").write_text(text)
    assert "No changes" not in terraform_in(place).run("plan", "-no-color", "-input=false")


@pytest.mark.builds
@pytest.mark.parametrize("folder", ROOTS, ids=name_of)
def test_the_example_of_a_target_plans_and_names_its_variables_only(terraform_in, folder, tmp_path):
    named = re.findall(r"^(\w+) +=", (folder / "terraform.tfvars.example").read_text(), re.MULTILINE)
    # Of a file's variable that nobody declared, Terraform only warns.
    assert set(named) <= set(variables(folder))
    planned = terraform_in(folder, TF_VAR_state=str(tmp_path / "state")).planned(*EXAMPLE)
    assert planned["planned_values"]["outputs"]


def test_commands_are_run_in_one_module_only():
    with_commands = {path.parent.name for path in TERRAFORM.rglob("*.tf") if "local-exec" in path.read_text()}
    assert with_commands == {"verb"}


def test_what_is_declared_of_topics_tables_and_jobs_is_what_python_makes(terraform_in):
    planned = terraform_in(TERRAFORM / "local").planned(*ALL)
    topics = {topic.name: (topic.partitions, topic.configs) for v in load_all() for topic in wanted_topics(v)}
    assert {each["name"]: (each["partitions"], each["config"]) for each in resources(planned, "topic")} == topics
    tables = {name: families for v in load_all() for name, families in wanted_tables(v).items()}
    assert {each["name"]: each["families"] for each in resources(planned, "table")} == tables
    jobs = {(plan.pattern, plan.engine) for v in load_all() for plan in plans_of(v.name)}
    assert {(each["pattern"], each["engine"]) for each in resources(planned, "job")} == jobs


@pytest.mark.builds
@pytest.mark.parametrize("profiles", [[], *([profile] for profile in PROFILES)], ids=" ".join)
def test_the_addresses_of_the_local_target_are_those_of_millrace_env(terraform_in, profiles, tmp_path):
    settings = Settings(PROJECT, tmp_path / "home", tmp_path / "state", 26000)
    stack.remember(settings, profiles)
    planned = terraform_in(TERRAFORM / "local").planned(
        "-var=port_base=26000", f"-var=state={settings.state}", "-var", f"profiles={json.dumps(profiles)}"
    )
    said = planned["planned_values"]["outputs"]["addresses"]["value"]
    assert said == {name: stack.addresses(settings)[name] for name in said}
    assert {"KAFKA_BOOTSTRAP", "HDFS_URI", "FLINK_REST_URL"} <= said.keys()


@pytest.mark.builds
def test_jobs_on_kubernetes_get_the_plans_that_deploy_would_give_them(terraform_in):
    chosen = ["-var", f"patterns={json.dumps(ON_KUBERNETES)}"]
    planned = terraform_in(TERRAFORM / "kubernetes").planned(*EXAMPLE, *chosen)
    rendered = planned["planned_values"]["outputs"]["plans"]["value"]
    # Rules and tables are in the image there, so the plan does not say what they mean.
    wanted = {
        f"{plan.pattern}-{plan.engine}-plan": json.loads(replace(plan, versions={}, tables={}).to_json())
        for name in ON_KUBERNETES
        for plan in plans_of(name)
    }
    assert rendered == wanted


@pytest.mark.builds
def test_an_engine_without_manifests_is_refused_on_kubernetes(terraform_in):
    root = terraform_in(TERRAFORM / "kubernetes")
    said = root.run("plan", "-no-color", "-input=false", *EXAMPLE, "-var", 'patterns=["storm-spark"]', codes=(1,))
    assert "storm-spark: there is no manifest of storm for Kubernetes" in " ".join(said.split())


def plans_of(name: str):
    hdfs = "hdfs://namenode.example.org:8020"
    stores = Stores(f"{hdfs}/millrace/data/{name}", "hbase.example.org", 9090, name)
    bootstrap = "millrace-kafka-bootstrap.millrace.svc:9092"
    return engine_plans(load(name), 1, bootstrap, f"{hdfs}/millrace/checkpoints", stores)
