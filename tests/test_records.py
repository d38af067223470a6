"""Numbers in the documents: each is what its record says, and each record is there because a document names it."""

import json
import re

import pytest

from infra.settings import PROJECT
from pipelines.patterns import names

README = (PROJECT / "README.md").read_text()
RECORDS = PROJECT / "docs" / "records"
DOCUMENTS = [*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md"), *PROJECT.glob("terraform/**/*.md")]
FIGURE = re.compile(r"\[(\w+) (\d+) / (\d+) ms\]\(docs/records/([\w-]+)\.json\)")


@pytest.mark.parametrize(("what", "p50", "p99", "name"), FIGURE.findall(README))
def test_a_latency_is_that_of_its_record(what: str, p50: str, p99: str, name: str) -> None:
    record = json.loads((RECORDS / f"{name}.json").read_text())["figures"]
    assert record["verdict"] == "ok"
    found = {each["name"]: (each["p50_ms"], each["p99_ms"]) for each in record["latencies"]}
    assert found[what] == (int(p50), int(p99))


def test_every_pattern_was_measured() -> None:
    assert {f"bench-{name}" for name in names()} <= {name for *_, name in FIGURE.findall(README)}


def test_the_readme_names_those_who_kept_their_promise() -> None:
    (said,) = re.findall(r"In these records it was by\s([^;]*);", README)
    records = {name: json.loads((RECORDS / f"bench-{name}.json").read_text())["figures"] for name in names()}
    assert set(re.findall(r"`([\w-]+)`", said)) == {n for n, record in records.items() if record["promises"] == "kept"}


def test_every_record_is_named_by_a_document_and_made_from_a_commit() -> None:
    text = "\n".join(document.read_text() for document in DOCUMENTS)
    for path in RECORDS.glob("*.json"):
        assert f"records/{path.name}" in text, f"no document names {path}"
        assert re.fullmatch(r"[0-9a-f]{40}(\+changes)?", json.loads(path.read_text())["commit"]), (
            f"{path}: of no commit"
        )


def test_every_link_of_a_document_leads_somewhere() -> None:
    dead = [
        f"{document.relative_to(PROJECT)}: {link}"
        for document in DOCUMENTS
        for link in re.findall(r"\]\(([^)#:]+)\)", document.read_text())
        if not (document.parent / link).exists()
    ]
    assert dead == []


def test_every_round_of_the_drill_of_airflow_ended_well() -> None:
    drills = [json.loads(path.read_text())["figures"] for path in RECORDS.glob("airflow-drill*.json")]
    rounds = [each for figures in drills for each in figures["rounds"]]
    for each in rounds:
        assert (set(each["jobs"].values()), each["extra"], each["verdict"]) == ({1}, 0, "ok")
    hits = [each for each in rounds if each["during"] == "running" and each["killed"]]
    assert f"{len(rounds)} rounds, {len(hits)} of them while `deploy` ran" in (PROJECT / "docs/airflow.md").read_text()
