"""Which pattern a key is shown from, when none is named; what the demo runs, and what it suggests to look at."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from typer.main import get_command
from typer.testing import CliRunner

from millrace import stack
from millrace.cli import demo
from millrace.cli.app import app
from millrace.deployments import deployed_file
from millrace.errors import UsageError
from millrace.oracle import Record
from millrace.patterns import Variant, load
from millrace.rules import Table
from millrace.rules.tables import VERBS
from millrace.settings import PROJECT, Settings
from millrace.stores import topics
from millrace.target import Target
from millrace.verbs import deploy, provision, show, traffic
from pipelines.fraud import FRAUD


def test_a_key_is_shown_from_the_last_deployed_pattern_that_writes_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flink, spark = load("flink"), load("spark")
    tableless = without_tables(flink)
    monkeypatch.setattr(show, "readable", lambda: [tableless, spark])
    target = Target.read(Settings(PROJECT, tmp_path, tmp_path, 26000), {})
    deployed(target, "flink", 2)
    with pytest.raises(UsageError, match=r"no pattern of fraud is deployed; name one with --pattern: spark$"):
        show.deployed_last(target, ["fraud"])
    deployed(target, "spark", 1)
    assert show.deployed_last(target, ["fraud"]) == "spark"


def test_no_key_can_be_called_as_a_verb_of_the_command_line() -> None:
    assert sorted(VERBS) == sorted(get_command(app).commands)  # type: ignore[attr-defined]  # of a group


def test_a_word_of_two_uses_is_read_from_the_pattern_that_is_named_or_was_deployed_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    customers, clients = FRAUD.table("customers"), Table("clients", key="client", alerts=True, called="customer")
    shop: Any = SimpleNamespace(name="shop", tables=(clients,))
    monkeypatch.setattr("millrace.cli.show._called", lambda: [(FRAUD, customers), (shop, clients)])
    uses = {"flink": FRAUD, "flood-flink": shop}
    variants: Any = {name: SimpleNamespace(name=name, use=use, stores={"hbase"}) for name, use in uses.items()}
    monkeypatch.setattr("millrace.patterns.load", variants.__getitem__)
    monkeypatch.setattr(show, "readable", variants.values)
    monkeypatch.setattr(show, "show_called", lambda target, variant, table, key, last: {"of": table.name})
    monkeypatch.setenv("MILLRACE_STATE", str(tmp_path))
    target = Target.read(Settings.read({"MILLRACE_STATE": str(tmp_path)}), {})
    for at_s, (name, table) in enumerate((("flink", "customers"), ("flood-flink", "clients"), ("flink", "customers"))):
        deployed(target, name, at_s)
        for words in ([], ["--pattern", name]):
            done = CliRunner().invoke(app, ["customer", "7", *words, "--json"])
            answer = json.loads(done.stdout)
            assert (answer["pattern"], answer["of"]) == (name, table)
    assert "of the use fraud or shop" in CliRunner().invoke(app, ["customer", "--help"]).stdout


class OneAlert:
    """The tail of a topic with one alert on a key with a space."""

    def __init__(self, *where: object) -> None:
        pass

    def new(self) -> list[Record]:
        return [Record("alerts", 0, 0, 0, None, b'{"subject": "anna b"}')]

    def close(self) -> None:
        pass


def test_the_demo_suggests_a_key_in_quotes_and_only_where_there_are_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(topics, "Tail", OneAlert)
    target = Target.read(Settings(PROJECT, tmp_path, tmp_path, 26000), {})
    demo._where_to_look_next(target, load("flink"), keep=True)
    assert "millrace customer 'anna b' --pattern flink" in capsys.readouterr().out
    demo._where_to_look_next(target, without_tables(load("flink")), keep=True)
    assert "millrace customer" not in capsys.readouterr().out


def test_the_demo_prints_the_address_of_the_live_page(tmp_path: Path) -> None:
    printed = StringIO()
    demo._point_to_the_page(Console(file=printed, width=200), Settings(PROJECT, tmp_path, tmp_path, 26000), "flink")
    assert printed.getvalue().startswith("Open http://127.0.0.1:26060/#/flink in a browser\n")


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Sequence[Any]]:
    """What the steps of a demo were called with: they take no time, and it is interrupted when the traffic starts."""
    monkeypatch.setenv("MILLRACE_STATE", str(tmp_path))
    monkeypatch.setenv("MILLRACE_PORT_BASE", "26000")
    monkeypatch.delenv("MILLRACE_TARGET", raising=False)
    called: dict[str, Sequence[Any]] = {}

    def step(name: str, *words: Any) -> list[Any]:
        called[name] = words[1:]
        if name == "traffic":
            raise KeyboardInterrupt
        return []

    doings = ((stack, "up"), (stack, "down"), (provision, "provision"), (deploy, "deploy"), (traffic, "traffic"))
    for module, name in doings:
        monkeypatch.setattr(module, name, lambda *words, name=name, **_: step(name, *words))
    monkeypatch.setattr(demo, "alerts_shown", lambda *_: nullcontext())
    return called


@pytest.mark.parametrize("name", ["streams-spark", "storm-spark"])
def test_the_demo_of_a_pattern_starts_its_servers_deploys_it_and_sends_to_it(
    steps: dict[str, Sequence[Any]], name: str
) -> None:
    CliRunner().invoke(app, ["demo", name, "--seconds", "10", "--rate", "10"])
    (services,) = steps["up"]
    assert {*load(name).engines, "kafka"} <= {*services}
    assert (steps["provision"], steps["deploy"], steps["traffic"][0]) == ((name,), (name,), name)


def test_the_demo_points_to_the_live_page_before_the_traffic_starts(
    steps: dict[str, Sequence[Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        demo.demo("flink", seconds=10, rate=10, keep=False)
    before = capsys.readouterr().err
    assert "traffic" in steps
    assert "Open http://127.0.0.1:26060/#/flink in a browser\n  the rates of events" in before
    assert "choose one to see why it was raised" in before


def without_tables(variant: Variant) -> Variant:
    """The pattern without its persisting stage."""
    stages = variant.pattern.stages.model_copy(update={"persist": None})
    return replace(variant, pattern=variant.pattern.model_copy(update={"stages": stages}))


def deployed(target: Target, name: str, at_s: int) -> None:
    file = deployed_file(target, name)
    file.touch()
    os.utime(file, (at_s, at_s))


def test_a_demo_of_a_use_runs_its_first_pattern() -> None:
    assert demo.pattern_of("flood") == "flood-flink"
    assert demo.pattern_of("flink") == "flink"
    with pytest.raises(UsageError, match="there is no pattern 'floods'"):
        demo.pattern_of("floods")
