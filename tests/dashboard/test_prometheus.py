"""The rules for Prometheus: their metrics exist, they fire, and each leads to a page that says what to do."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from typer.core import TyperGroup
from typer.exceptions import TyperException
from typer.main import get_command

from millrace.cli.app import app
from millrace.dashboard import figures, view
from millrace.dashboard.board import Board
from millrace.job import DOWN, SICK
from millrace.machine.processes import wait_until
from millrace.oracle import Record
from millrace.patterns import load
from millrace.settings import PROJECT, Settings
from tests.dashboard.playback import UP, PlaybackReader, pattern_around, records, served, without_tables
from tests.dashboard.scraping import FOLDER, RULES, addresses, firing, prometheus, results

PANELS = json.loads((PROJECT / "infra" / "grafana" / "millrace.json").read_text())["panels"]
DRAWN = [target["expr"] for panel in PANELS for target in panel["targets"]]
WELL = ("flink", "flood-flink")
MINUTE_S, FIRES_WITHIN_S = 2, 120
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}


def text() -> str:
    """The figures of a pattern that has run."""
    variant = load("flink")
    board = Board(variant, view.of(variant.use))
    for _, record in records(variant, time.time_ns() // 1_000_000, seconds=20, rate_per_s=40):
        board.take(record)
    verdict = {"status": "ok", "at": "2026-11-21T00:00:00+00:00", "page": "", "checks": {}}
    alive = {"rule": "r", "status": "alive", "key": "k", "silent_s": 4.2, "latency_ms": 40}
    canaries = {"status": "alive", "why": "", "rules": [alive], "counting": (), "limit_s": 120}
    changes = {"verdict": verdict, "canaries": canaries, "judged_ms": 1}
    around = {"looked_ms": 1, "kafka": UP, "patterns": {"flink": pattern_around("flink", **changes)}}
    return figures.text({"flink": board}, around).decode()


def exposed() -> set[str]:
    """The names of all its samples."""
    return {sample.name for family in text_string_to_metric_families(text()) for sample in family.samples}


def test_every_metric_of_the_rules_is_exposed() -> None:
    recorded = {rule["record"] for rule in RULES if "record" in rule}
    used = {name for rule in RULES for name in re.findall(r"\bmillrace[\w:]+", rule["expr"])}
    assert used <= exposed() | recorded
    assert recorded <= used


def test_the_alert_on_jobs_has_the_states_that_need_a_person() -> None:
    sick, down = re.findall(r'state=~"([^"]+)"', ALERTS["MillraceJobSick"]["expr"])
    assert (set(sick.split("|")), set(down.split("|"))) == ({*SICK, "unknown"}, {*DOWN})


def test_windows_may_be_behind_by_the_disorder_of_the_use_and_a_minute() -> None:
    boards = {name: Board(load(name), view.of(load(name).use)) for name in WELL}
    found = figures.text(boards, {}).decode().splitlines()
    limits = [line for line in found if line.startswith("millrace_windows_behind_limit_seconds{")]
    assert limits == [
        f'millrace_windows_behind_limit_seconds{{pattern="{name}"}} {s}'
        for name, s in zip(WELL, (65.0, 61.0), strict=True)
    ]


@pytest.mark.parametrize("alert", ALERTS.values(), ids=list(ALERTS))
def test_each_alert_leads_to_a_page_with_how_to_look_and_what_to_do(alert: dict[str, Any]) -> None:
    text = (PROJECT / alert["annotations"]["runbook"]).read_text(encoding="utf-8")
    assert text.startswith(f"# {alert['alert']}: ")
    assert text.index("## How to look") < text.index("## What to do") < text.index("## Outcome")


def test_each_alert_has_the_address_of_its_page_but_that_of_a_page_that_is_away() -> None:
    served = {name: each["annotations"] for name, each in ALERTS.items() if name != "MillracePageAway"}
    assert {name: each["runbook_url"] for name, each in served.items()} == {
        name: f"http://{{{{ $labels.instance }}}}/runbook/{Path(each['runbook']).stem}" for name, each in served.items()
    }
    assert "runbook_url" not in ALERTS["MillracePageAway"]["annotations"]


def test_no_page_is_without_an_alert() -> None:
    pages = {f"docs/runbook/{path.name}" for path in (PROJECT / "docs" / "runbook").glob("*.md")}
    assert pages == {alert["annotations"]["runbook"] for alert in ALERTS.values()}


BLOCK, SPAN = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL), re.compile(r"`([^`]+)`")
REMEDY = re.compile(r"remedy: `([^`]+)`")
EXAMPLES = {"PATTERN": "flink", "${name}": "flink", "ALERT_ID": "0" * 32, "FILE": __file__}
"""What stands for the words in capitals of a page, and for the name in a template."""
TARGETS = re.findall(r"^([a-z]+):", (PROJECT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def commands_in(text: str) -> list[str]:
    """The commands that a page shows, in its sentences and in its blocks."""
    blocks = [line for block in BLOCK.findall(text) for line in block.splitlines()]
    return [each for each in (*blocks, *SPAN.findall(BLOCK.sub("", text))) if re.match(r"(millrace|make)\s", each)]


def commands() -> Iterator[tuple[str, str]]:
    """Those of the runbook, and the remedies that the live page shows."""
    for path in sorted((PROJECT / "docs" / "runbook").glob("*.md")):
        yield from ((path.name, words) for words in commands_in(path.read_text(encoding="utf-8")))
    states = PROJECT / "millrace" / "dashboard" / "page" / "state.js"
    yield from ((states.name, words) for words in REMEDY.findall(states.read_text(encoding="utf-8")))


def parse(words: str) -> None:
    """Raise an error unless the Makefile or the command line accepts the words."""
    for name, example in EXAMPLES.items():
        words = words.replace(name, example)
    program, *rest = shlex.split(words)
    if program == "make":
        assert rest[0] in TARGETS, f"no target {rest[0]}"
        return
    command, context = get_command(app), None
    while isinstance(command, TyperGroup):
        context = command.make_context(program, rest, parent=context)
        found = command.get_command(context, rest[0])
        assert found is not None, f"no {rest[0]}"
        command, rest = found, rest[1:]
    command.make_context(words, rest, parent=context)


@pytest.mark.parametrize(("page", "words"), [*commands()])
def test_every_command_of_a_page_is_one_of_the_command_line(page: str, words: str) -> None:
    parse(words)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("- Then `millrace deploy PATTERN --by-magic`.", "No such option: --by-magic"),
        ("- Then:\n\n```\nmillrace up kafka\nmillrace down --by-magic\n```\n", "No such option: --by-magic"),
        ("```sh\nmillrace conjure PATTERN\n```", "no conjure"),
        ("- Then `make magic`.", "no target magic"),
    ],
)
def test_a_command_that_does_not_exist_is_found_in_a_page(text: str, complaint: str) -> None:
    words = commands_in(text)[-1]
    with pytest.raises((AssertionError, TyperException), match=complaint):
        parse(words)


@pytest.mark.builds
def test_the_rules_fire_when_they_should_and_only_then() -> None:
    for words in (("check", "config", "prometheus.yml"), ("test", "rules", "rules.test.yml")):
        done = subprocess.run(["promtool", *words], cwd=FOLDER, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.builds
def test_prometheus_objects_to_no_metric() -> None:
    done = subprocess.run(["promtool", "check", "metrics"], input=text(), capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_every_metric_of_the_dashboard_is_exposed_or_recorded() -> None:
    recorded = {rule["record"] for rule in RULES if "record" in rule}
    assert {name for drawn in DRAWN for name in re.findall(r"\bmillrace[\w:]+", drawn)} <= exposed() | recorded
    assert len({panel["id"] for panel in PANELS}) == len(PANELS) > 8


@pytest.mark.builds
def test_prometheus_understands_the_dashboard(tmp_path: Path) -> None:
    rules = [{"record": f"drawn:{n}", "expr": drawn.replace("$pattern", ".+")} for n, drawn in enumerate(DRAWN)]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "drawn", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", "rules.yml"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def page(tmp_path: Path) -> Iterator[tuple[int, PlaybackReader]]:
    """A page on which all is well, at first, and the port of the Prometheus that scrapes it."""
    read = Settings.read(os.environ)
    settings, port, own = Settings(read.project, read.home, tmp_path, read.port_base), free_port(), free_port()
    variants = [without_tables(load(name)) for name in WELL]
    around = {"kafka": UP, "patterns": {name: pattern_around(name) for name in WELL}}
    with prometheus(port, own, tmp_path, MINUTE_S):
        with served(settings, variants, {name: [] for name in WELL}, around, own) as reader:
            assert wait_until(lambda: value(port, "millrace_kafka_up") == 1, FIRES_WITHIN_S)
            assert firing(port) == set()
            yield port, reader
        # Its server has ended by now.
        assert wait_until(lambda: firing(port) == {"MillracePageAway"}, FIRES_WITHIN_S), firing(port)


@pytest.mark.builds
def test_alerts_fire_while_what_the_page_reports_is_wrong(page: tuple[int, PlaybackReader]) -> None:
    port, reader = page
    sick = pattern_around("flink", verdict={"status": "unknown", "at": "", "page": "", "checks": {}})
    sick["jobs"][0]["state"] = "crash-looping"
    silent = {"rule": "burst", "silent_s": 180, "latency_ms": None, "is_alive": False}
    sick["canaries"] = {"status": "silent", "why": "", "rules": [silent], "counting": (), "limit_s": 120}
    sick["judged_ms"] = time.time_ns() // 1_000_000 - 100_000
    well, down = dict(reader.around), {"state": "down", "since_ms": 0, "problem": ""}
    wrong = {"kafka": down, "patterns": {**well["patterns"], "flink": sick}}
    reader.ask(lambda: reader.around.update(wrong)).result(5)
    named = ("KafkaDown", "JobSick", "VerdictNotOk", "LedgerStale", "CanarySilent")
    causes = {f"Millrace{name}" for name in named}
    assert wait_until(lambda: firing(port) == causes, FIRES_WITHIN_S), firing(port)
    for name, address in addresses(port).items():
        with urllib.request.urlopen(address, timeout=5) as answer:
            assert answer.read().decode().startswith(f"# {name}: ")
    assert addresses(port).keys() == causes
    reader.ask(lambda: reader.around.update(well)).result(5)
    assert wait_until(lambda: firing(port) == set(), FIRES_WITHIN_S), firing(port)


@pytest.mark.builds
def test_alerts_fire_while_what_the_topics_hold_is_wrong(page: tuple[int, PlaybackReader]) -> None:
    """Of one pattern nothing is judged, and alerts come five seconds late; of the other everything is refused."""
    port, reader = page
    numbers = itertools.count()
    letter = {"reason": "json", "topic": "t", "partition": 0, "offset": 0, "ingest_ms": 0, "value_base64": ""}
    late = {"rule": "spree", "rule_version": "1", "key": "anna", "subject": "anna", "event_ids": [], "operands": {}}

    def more() -> set[str]:
        now_ms, number = time.time_ns() // 1_000_000, next(numbers)

        def record(kind: str, content: Mapping[str, Any]) -> Record:
            return Record(kind, 0, number, now_ms, None, json.dumps(content).encode())

        times = {"at_ms": now_ms, "sent_ms": now_ms - 5_000, "ingest_ms": now_ms, "emit_ms": now_ms}
        alert = late | times | {"alert_id": f"{number:032x}", "window_start_ms": None}
        reader.put("flink", record("transactions", {}), record("alerts", alert))
        reader.put("flood-flink", record("requests", {}), record("dead-letters", letter))
        lag = {**pattern_around("flink"), "lag": 2_000 + number}
        reader.ask(lambda: reader.around["patterns"].update({"flink": lag})).result(5)
        return firing(port)

    causes = {"NoCheckpoint", "NothingJudged", "LagGrows", "DeadLetters", "PromiseBroken"}
    wanted = {f"Millrace{name}" for name in causes}
    assert wait_until(lambda: more() == wanted, 2 * FIRES_WITHIN_S, every_s=0.2), firing(port)


def value(port: int, query: str) -> float | None:
    """The value of a query with one result."""
    return next((float(each["value"][1]) for each in results(port, query)), None)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
