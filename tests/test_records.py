"""Figures in the documents: each equals its record, and a document names each record."""

import ast
import json
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from lab.documents import BACK_WITHIN_S, NOT_MEASURED, SENTENCES, documents, records_of, rewritten
from lab.measurements import MEASUREMENTS
from lab.records import refusal, refuse_shallow
from millrace.patterns import readable
from millrace.settings import PROJECT
from pipelines.fraud import FRAUD

pytestmark = pytest.mark.source

README = (PROJECT / "README.md").read_text()
RECORDS = PROJECT / "docs" / "records"
DOCUMENTS = documents(PROJECT)
PATTERNS = [each.name for each in readable() if each.use is FRAUD]
FIGURE = re.compile(r"\[(\w+) (\d+) / (\d+) ms\]\(docs/records/([\w-]+)\.json\)")


@pytest.mark.parametrize(("what", "p50", "p99", "name"), FIGURE.findall(README))
def test_a_latency_is_that_of_its_record(what: str, p50: str, p99: str, name: str) -> None:
    record = json.loads((RECORDS / f"{name}.json").read_text())["figures"]
    assert record["verdict"] == "ok"
    found = {each["name"]: (each["p50_ms"], each["p99_ms"]) for each in record["latencies"]}
    assert found[what] == (int(p50), int(p99))


def test_what_was_killed_came_back_as_soon_as_it_should() -> None:
    record = json.loads((RECORDS / "watch.json").read_text())["figures"]
    assert record["verdict"] == "ok"
    assert {name: record["seconds"][name] <= most_s for name, most_s in BACK_WITHIN_S.items()} == dict.fromkeys(
        BACK_WITHIN_S, True
    )


def test_every_pattern_has_its_figure_measured_or_not() -> None:
    assert {f"bench-{name}" for name in PATTERNS} <= set(re.findall(r"\(docs/records/([\w-]+)\.json\)", README))


def test_the_readme_names_those_who_kept_their_promise() -> None:
    (said,) = re.findall(r"In these records it\s+was kept by\s([^;]*);", README)
    measured = {name: path for name in PATTERNS if (path := RECORDS / f"bench-{name}.json").exists()}
    records = {name: json.loads(path.read_text())["figures"] for name, path in measured.items()}
    assert set(re.findall(r"`([\w-]+)`", said)) == {n for n, record in records.items() if record["promises"] == "kept"}


def test_the_rule_of_the_readme_is_declared_so_and_its_alert_reads_so() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert block in (PROJECT / "pipelines/fraud/rules.py").read_text()
    rule = FRAUD.rule("above-previous-max")
    assert f": {rule.explained({'amount_cents': '91200', 'before_highest_cents': '5000'})}\n" in README


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(PROJECT)))
def test_a_document_shows_what_its_records_say_and_where_they_were_measured(path: Path) -> None:
    text, name = path.read_text(), str(path.relative_to(PROJECT))
    assert rewritten(name, text, records_of(PROJECT)) == text, "run `.venv/bin/python -m lab.records --write`"


@pytest.mark.parametrize(("document", "sentence"), [(name, each) for name, all_ in SENTENCES.items() for each in all_])
def test_a_computed_sentence_is_in_its_document(document: str, sentence: str) -> None:
    assert re.search(sentence, (PROJECT / document).read_text())


def test_every_record_is_named_by_a_document_and_made_from_a_commit_of_this_branch() -> None:
    refuse_shallow(PROJECT)
    text = "\n".join(document.read_text() for document in DOCUMENTS)
    for name, record in records_of(PROJECT).items():
        assert f"records/{name}.json" in text, f"no document names docs/records/{name}.json"
        assert MEASUREMENTS[name].kind == record["kind"]
        assert refusal(PROJECT, record) is None, f"docs/records/{name}.json"


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_a_measurement_names_files_that_are_there(name: str) -> None:
    row = MEASUREMENTS[name]
    for path in row.paths:
        assert [*PROJECT.glob(path)], f"lab/measurements.py: {name} names {path}"
    for module in re.findall(r"-m lab\.([\w.]+)", row.command):
        assert (PROJECT / "lab" / f"{module.replace('.', '/')}.py").exists()
    for file, test in re.findall(r"(tests/\S+)::(\w+)", row.command):
        assert f"def {test}(" in (PROJECT / file).read_text()


WITHOUT_EFFECT = {
    *("millrace/cli/watch.py", "millrace/errors.py", "millrace/records.py", "millrace/registry.py"),
    *("millrace/settings.py", "millrace/stack", "millrace/target.py", "millrace/verbs/teardown.py"),
    *("tests/browser.py", "tests/conftest.py", "tests/dashboard/test_prometheus.py"),
}
"""What a measurement imports, and what changes none of its figures."""


@pytest.mark.parametrize("name", ["watch", "stores-away", "hbase-away", "runbook", "pages", "endless"])
def test_a_measurement_names_what_its_code_imports(name: str) -> None:
    row = MEASUREMENTS[name]
    (code,) = re.findall(r"tests/\S+\.py|(?<=-m )lab\.\w+", row.command)
    file = PROJECT / code if "/" in code else PROJECT / f"{code.replace('.', '/')}.py"

    def is_named(module: str) -> bool:
        return any(fnmatch(module, path) or module.startswith(f"{path}/") for path in (*row.paths, *WITHOUT_EFFECT))

    assert [each for each in imported(file) if not is_named(each)] == []


def imported(file: Path) -> Iterator[str]:
    """The modules and packages of this repository that a module imports."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        for alias in node.names if isinstance(node, ast.ImportFrom) and node.module else ():
            places = (
                PROJECT / f"{node.module}.{alias.name}".replace(".", "/"),
                PROJECT / node.module.replace(".", "/"),
            )
            found = [each for place in places for each in (place.with_suffix(".py"), place) if each.exists()]
            yield from (str(each.relative_to(PROJECT)) for each in found[:1])


def test_every_link_of_a_document_leads_somewhere() -> None:
    dead = [
        f"{document.relative_to(PROJECT)}: {link}"
        for document in DOCUMENTS
        for text, link in re.findall(r"(?:\[([^[\]]*))?\]\(([^)#:]+)\)", document.read_text())
        if not (document.parent / link).exists() and not (text.endswith(NOT_MEASURED) and "records/" in link)
    ]
    assert dead == []


def test_every_round_of_the_drill_of_airflow_ended_well() -> None:
    rounds = json.loads((RECORDS / "airflow-drill.json").read_text())["figures"]["rounds"]
    for each in rounds:
        assert (set(each["jobs"].values()), each["extra"], each["verdict"]) == ({1}, 0, "ok")
    hits = [each for each in rounds if each["during"] == "running" and each["killed"]]
    assert f"{len(rounds)} rounds, {len(hits)} of them while `deploy` ran" in (PROJECT / "docs/airflow.md").read_text()
