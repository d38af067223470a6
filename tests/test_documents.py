"""The examples of the documents are true: declarations are declared, and scenarios played to the oracle."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from millrace.oracle import Refusal, accept
from millrace.patterns.model import Pattern
from millrace.patterns.parquet import PLACE
from millrace.rules import ENRICHMENT, LIMITS, UseCase
from millrace.rules.rules import OWN_COLUMNS, OWN_TABLES, OWN_TOPICS, WINDOW_COLUMNS, WINDOW_SPAN
from millrace.rules.tables import FORGOTTEN, VERBS
from millrace.settings import PROJECT
from millrace.testing import Scenario, mute_canaries, played, read
from millrace.traffic.replay import read_replay
from millrace.traffic.tokens import secrets_under

PAGE = PROJECT / "docs/declarations.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples(language: str) -> str:
    """The examples in one language, each at its line of the page."""
    text = PAGE.read_text()
    found = [each for each in BLOCK.finditer(text) if each[1] == language]
    assert found, f"{PAGE.name} has no example in {language or 'plain text'}"
    lines = [""] * (text.count("\n") + 1)
    for each in found:
        first = text.count("\n", 0, each.start(2))
        lines[first : first + each[2].count("\n")] = each[2].splitlines()
    return "\n".join(lines)


@pytest.fixture(scope="module")
def use() -> UseCase:
    """The use of the page."""
    names: dict[str, Any] = {}
    exec(compile(examples("python"), PAGE, "exec"), names)
    (found,) = (each for each in names.values() if isinstance(each, UseCase))
    return found


@pytest.fixture(scope="module")
def scenarios(use: UseCase, tmp_path_factory: pytest.TempPathFactory) -> list[Scenario]:
    path: Path = tmp_path_factory.mktemp("page") / PAGE.name
    path.write_text(examples(""))
    return read(use, path)


def test_the_scenarios_of_the_page_lead_to_what_it_shows(scenarios: list[Scenario]) -> None:
    assert len(scenarios) > 1
    for scenario in scenarios:
        assert played(scenario) == scenario.expected


def test_the_canaries_of_the_page_set_off_their_rules(use: UseCase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millrace.testing._declared", lambda name: use)
    assert mute_canaries(use.name) == []


def test_the_pattern_of_the_page_runs_all_of_its_use(use: UseCase) -> None:
    pattern = Pattern.model_validate(yaml.safe_load(examples("yaml")))
    stages = pattern.stages
    assert pattern.use == use.name
    assert {*stages.events.rules, *stages.windowing.rules} == {rule.name for rule in use.rules}
    assert set(stages.windowing.summaries) == {summary.name for summary in use.summaries}


def test_each_rule_of_the_page_alerts_in_a_scenario(use: UseCase, scenarios: list[Scenario]) -> None:
    assert {each.subject for scenario in scenarios for each in scenario.outcome} >= {rule.name for rule in use.rules}


def test_the_recorded_file_of_the_page_is_accepted_again(use: UseCase, tmp_path: Path) -> None:
    file = tmp_path / "recorded.jsonl"
    file.write_text(examples("json"))
    replay = read_replay(file, use, secrets_under(use, b"k" * 32))
    now_ms = 1_790_000_000_000
    kinds = {each.name: each for each in (*use.raw, *use.references)}
    sent = [*replay.references(now_ms), *replay.messages(now_ms)]
    assert [each.topic for each in sent] == ["depots", "scans", "doors"]
    for each in sent:
        assert not isinstance(accept(kinds[each.topic], each.value, now_ms + each.due_ms), Refusal)


def test_the_page_lists_every_name_that_is_taken() -> None:
    taken = {
        *OWN_TOPICS,
        *OWN_TABLES,
        *OWN_COLUMNS,
        *WINDOW_COLUMNS,
        *WINDOW_SPAN,
        *PLACE,
        ENRICHMENT,
        LIMITS,
        FORGOTTEN,
        *VERBS,
    }
    listed = PAGE.read_text().partition("## Names that are taken")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(\S+)`", listed)) == taken


def test_each_test_of_a_fault_exists() -> None:
    text = (PROJECT / "docs/verdict-faults.md").read_text()
    faults = {f"V{n}" for n in range(1, 7)} | {f"B{n}" for n in range(1, 12)}
    assert set(re.findall(r"^\| ([VB]\d+) \|.*`tests/", text, re.MULTILINE)) == faults
    named = re.findall(r"`(tests/[\w/]+\.(?:py|java))::([\w:]+)`", text)
    assert len(named) == text.count("`tests/") - 1, "and this module"
    missing = [f"{path}::{name}" for path, name in named if not is_there((PROJECT / path).read_text(), name)]
    assert missing == []


def is_there(module: str, name: str) -> bool:
    """Whether a test, or the class that it is in, is in a module of Python or Java."""
    return all(re.search(rf"^ *(class|def|void) {part}\b", module, re.MULTILINE) for part in name.split("::"))
