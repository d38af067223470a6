"""Old figures are found and measured again: on a small git repository of the test's own."""

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab import documents, records
from lab.measurements import MEASUREMENTS, Measurement
from millrace.errors import InfraError
from millrace.settings import PROJECT, Settings

LAP = """
mkdir -p "$MILLRACE_STATE/records"; echo once >> "$MILLRACE_STATE/../runs"
for kind in lap rest; do
printf '{"kind": "%s", "at": "2026-11-22T10:00:00+00:00", "machine": {}, "commit": "%s", "figures": {"seconds": 65}}' \\
    $kind "$(git rev-parse HEAD)" > "$MILLRACE_STATE/records/1-$kind.json"
done
"""
TABLE = {
    "lap": Measurement("lap", ("engine",), LAP, minutes=1),
    "rest": Measurement("rest", ("engine", "brakes"), LAP, minutes=1),
    "fall": Measurement("fall", ("brakes",), "exit 3", minutes=1),
    "nothing": Measurement("nothing", ("brakes",), "true", minutes=1),
    "weighed": Measurement("weighed", ("engine",), LAP, minutes=1, is_of_decision=True),
    "advice": Measurement("advice", ("advice/*.md",), LAP, minutes=1),
}


@dataclass(frozen=True)
class Clone:
    """A project with one document."""

    project: Path
    state: Path

    @property
    def settings(self) -> Settings:
        return Settings(self.project, self.state / "home", self.state, 20000)

    def git(self, *words: str) -> str:
        name = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", "-C", self.project, *name, *words], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, **files: str) -> str:
        for name, text in files.items():
            path = self.project / name.replace("__", "/")
            path = path.with_suffix(".md") if path.name in ("README", "skid") else path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", "change")
        return self.git("rev-parse", "HEAD")

    def record(self, name: str, commit: str | None, kind: str = "", **figures: Any) -> None:
        path = self.project / "docs" / "records" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(recorded(commit, kind or name, **figures)))

    def old(self) -> dict[str, tuple[str, list[str], list[tuple[str, int, str]]]]:
        return {
            each.record: (each.reason, each.changed, [(m.document, m.line, m.text) for m in each.places])
            for each in records.old(self.project, TABLE)
        }

    def readme(self) -> str:
        return (self.project / "README.md").read_text()


def recorded(commit: str | None, kind: str, **figures: Any) -> dict[str, Any]:
    found = figures or {"seconds": 77.2}
    return {"kind": kind, "at": "2026-11-21T09:00:00+00:00", "machine": {}, "commit": commit, "figures": found}


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    made = Clone(tmp_path / "clone", tmp_path / "state")
    (made.project / "docs" / "records").mkdir(parents=True)
    made.git("init", "--quiet", "--initial-branch=main")
    made.commit(README="# Cars\n\nA lap takes [1 min 17 s](docs/records/lap.json).\n", engine__valves="8", brakes="2")
    return made


def test_a_figure_is_old_once_a_measured_path_changes(clone: Clone) -> None:
    clone.record("lap", clone.git("rev-parse", "HEAD"))
    clone.commit(brakes="3", engine__README="Eight valves.")
    assert clone.old() == {}, "neither is measured: another path, and a document"
    clone.commit(engine__valves="16", engine__turbo="yes")
    assert clone.old() == {
        "lap": (
            "measured files that have changed since: 2",
            ["engine/turbo", "engine/valves"],
            [("README.md", 3, "1 min 17 s")],
        )
    }


def test_a_figure_is_old_once_a_document_changes_that_its_row_names(clone: Clone) -> None:
    page = "# It skids\n\n- {}, [1 min 17 s](../docs/records/lap.json).\n\n*Measured at {}.*\n\n## Outcome\n\n{}\n"
    clone.commit(
        README="[1 min 17 s](docs/records/advice.json)\n", advice__skid=page.format("Brake", "a", "It stopped.")
    )
    clone.record("advice", clone.git("rev-parse", "HEAD"))
    clone.commit(advice__skid=page.format("Brake", "b", "It stopped sooner.").replace("1 min 17 s", "65 s"))
    assert clone.old() == {}, "that much is written from records"
    clone.commit(advice__skid=page.format("Steer", "b", "It stopped sooner."))
    assert clone.old()["advice"][1] == ["advice/skid.md"]
    (clone.project / "advice" / "skid.md").unlink()
    clone.commit(advice__brakes__README="Brakes.")
    assert clone.old()["advice"][1] == ["advice/brakes/README.md", "advice/skid.md"]


def test_a_figure_holds_again_when_the_change_is_taken_back(clone: Clone) -> None:
    clone.record("lap", clone.git("rev-parse", "HEAD"))
    clone.commit(engine__valves="16")
    clone.commit(engine__valves="8")
    assert clone.old() == {}
    (clone.project / "engine" / "valves").write_text("12")
    assert "lap" in clone.old(), "a change that is in no commit yet counts"


def test_what_a_decision_weighed_is_not_old_when_the_chosen_way_changes(clone: Clone) -> None:
    clone.commit(README="[1 min 17 s](docs/records/weighed.json)\n")
    assert clone.old()["weighed"][0] == "not measured"
    clone.record("weighed", clone.git("rev-parse", "HEAD"))
    clone.commit(engine__valves="16")
    assert clone.old() == {}
    clone.record("weighed", "0" * 40)
    assert "is unknown" in clone.old()["weighed"][0]


def test_what_a_decision_weighed_is_shown_by_decisions_alone() -> None:
    shown = [each for each in documents.mentions(PROJECT) if MEASUREMENTS[each.record].is_of_decision]
    assert shown
    assert {Path(each.document).parent.name for each in shown} == {"decisions"}


def test_a_figure_without_a_record_is_listed(clone: Clone) -> None:
    assert clone.old() == {"lap": ("not measured", [], [("README.md", 3, "1 min 17 s")])}


def test_a_link_that_the_table_lacks_is_refused_with_its_place(clone: Clone) -> None:
    clone.commit(README="\n\n[5 s](docs/records/speed.json)\n")
    with pytest.raises(InfraError, match=r"README.md:3: .* no row 'speed'"):
        clone.old()


def test_a_record_that_no_commit_of_the_branch_has_is_refused_by_its_reason(clone: Clone) -> None:
    first = clone.git("rev-parse", "HEAD")
    clone.git("checkout", "--quiet", "-b", "aside")
    aside = clone.commit(engine__valves="4")
    clone.git("checkout", "--quiet", "main")
    for commit, reason in (
        (first, None),
        (None, "it was measured outside a git clone"),
        (f"{first}+changes", f"it was measured on a tree with changes that {first[:7]} does not have"),
        ("f" * 40, "its commit fffffff is unknown to this repository"),
        (aside, f"its commit {aside[:7]} is not in the history of HEAD"),
    ):
        record = recorded(commit, "lap")
        assert records.refusal(clone.project, record) == reason
        if reason is None:
            records.take(clone.project, "lap", record, TABLE).unlink()
            continue
        with pytest.raises(InfraError, match=re.escape(reason)):
            records.take(clone.project, "lap", record, TABLE)
        assert not (clone.project / "docs" / "records" / "lap.json").exists()
        clone.record("lap", commit)
        assert clone.old()["lap"][0] == reason
        (clone.project / "docs" / "records" / "lap.json").unlink()


def test_a_record_of_another_kind_or_with_a_red_verdict_is_refused(clone: Clone) -> None:
    commit = clone.git("rev-parse", "HEAD")
    with pytest.raises(InfraError, match="needs kind 'lap', not 'rest'"):
        records.take(clone.project, "lap", recorded(commit, "rest"), TABLE)
    with pytest.raises(InfraError, match="its verdict is 'lost'"):
        records.take(clone.project, "lap", recorded(commit, "lap", verdict="lost"), TABLE)
    with pytest.raises(InfraError, match="the run ended with code 1"):
        records.take(clone.project, "lap", recorded(commit, "lap", exit=1), TABLE)
    with pytest.raises(InfraError, match="no row 'speed'"):
        records.take(clone.project, "speed", recorded(commit, "speed"), TABLE)


def test_a_shallow_clone_and_a_folder_without_git_are_refused_with_the_remedy(clone: Clone, tmp_path: Path) -> None:
    clone.commit(engine__valves="16")
    shallow = tmp_path / "shallow"
    clone.git("clone", "--quiet", "--depth=1", f"file://{clone.project}", str(shallow))
    with pytest.raises(InfraError, match=r"shallow clone.*git fetch --unshallow"):
        records.old(shallow, TABLE)
    (tmp_path / "bare").mkdir()
    with pytest.raises(InfraError, match="is not a git clone"):
        records.old(tmp_path / "bare", TABLE)


def test_measuring_again_replaces_records_and_figures(clone: Clone, capfd: pytest.CaptureFixture[str]) -> None:
    head = clone.commit(README="[77 s](docs/records/lap.json)\n\n[a rest not measured](docs/records/rest.json)\n")
    records.measure(clone.settings, ["lap", "rest"], TABLE)
    line = f"*Measured at {head[:7]}, 2026-11-22.*"
    assert clone.readme() == (
        f"[1 min 5 s](docs/records/lap.json)\n\n{line}\n\n[a rest 1 min 5 s](docs/records/rest.json)\n\n{line}\n"
    )
    assert clone.old() == {}
    assert (clone.state / "runs").read_text() == "once\n", "one command makes both records"
    said = capfd.readouterr().err
    assert said.index("lap, rest: about 1 min") < said.index("+ ")
    assert "rewrote the figures of README.md" in said


def test_a_dirty_tree_is_not_measured(clone: Clone) -> None:
    (clone.project / "stray").touch()
    with pytest.raises(InfraError, match="changes that are in no commit"):
        records.measure(clone.settings, ["lap"], TABLE)
    assert not (clone.state / "runs").exists()


def test_a_command_that_fails_or_records_nothing_is_named_and_what_came_before_it_stays(clone: Clone) -> None:
    with pytest.raises(InfraError, match="`exit 3` ended with code 3, without a record of fall; its logs are in"):
        records.measure(clone.settings, ["lap", "fall"], TABLE)
    assert "[1 min 5 s]" in clone.readme()
    clone.commit()
    with pytest.raises(InfraError, match="`true` ended with code 0, without a record of nothing"):
        records.measure(clone.settings, ["nothing"], TABLE)


LATENCIES = recorded("0b94cfe" + "0" * 33, "bench", latencies=[{"name": "alerts", "p50_ms": 3, "p99_ms": 84}])
LAPS = recorded("f0ef29b" + "0" * 33, "lap", seconds=59.7)
BACK = recorded("f0ef29b" + "0" * 33, "watch", seconds={"kafka-1": 10.1})


@pytest.mark.parametrize(
    ("text", "record", "shown"),
    [
        ("alerts 9 / 9 ms", LATENCIES, "alerts 3 / 84 ms"),
        ("alerts not measured", LATENCIES, "alerts 3 / 84 ms"),
        ("alerts 9 / 9 ms", None, "alerts not measured"),
        ("a lap 2 s", LAPS, "a lap 1 min 0 s"),
        ("3 min 2 s", LAPS, "1 min 0 s"),
        ("kafka-1 2 s", BACK, "kafka-1 10 s"),
        ("kafka-1 not measured", BACK, "kafka-1 10 s"),
        ("kafka-9 not measured", BACK, "kafka-9 not measured"),
        ("the record", LAPS, "the record"),
        ("the record", None, "the record"),
    ],
)
def test_a_figure_is_the_value_of_its_record(text: str, record: dict[str, Any] | None, shown: str) -> None:
    assert documents.figure(text, record) == shown


@pytest.mark.parametrize(
    ("text", "record", "complaint"),
    [
        ("about 80 ms", LATENCIES, "write a figure as"),
        ("alarms 3 / 84 ms", LATENCIES, "no latency 'alarms'; it has alerts"),
        ("kafka-2 2 s", BACK, "no seconds of 'kafka-2'; it has kafka-1"),
        ("5 s", recorded("f" * 40, "x", laps=3), "neither latencies nor seconds; it has laps"),
    ],
)
def test_a_figure_that_cannot_be_held_to_its_record_is_refused(text: str, record: Any, complaint: str) -> None:
    with pytest.raises(InfraError, match=f"README.md: .*docs/records/bench.json: .*{complaint}"):
        documents.rewritten("README.md", f"[{text}](docs/records/bench.json)", {"bench": record})


def test_the_line_below_names_records_where_their_commits_differ() -> None:
    before = """\
| a | [alerts 3 /
84 ms](docs/records/bench.json) |
| b | [the record](../records/lap.json), [again](../records/lap.json) |

*Measured at an old commit.*

Not linked.

[not measured](records/gone.json)

[round nine not measured](records/rounds.json)
"""
    after = """\
| a | [alerts 3 /
84 ms](docs/records/bench.json) |
| b | [the record](../records/lap.json), [again](../records/lap.json) |

*Measured: bench at 0b94cfe, 2026-11-21; lap at f0ef29b, 2026-11-21.*

Not linked.

[not measured](records/gone.json)

*Not measured yet.*

[round nine not measured](records/rounds.json)

*Not measured yet.*
"""
    rounds = recorded("f0ef29b" + "0" * 33, "rounds", seconds={"round one": 1.0})
    there = {"bench": LATENCIES, "lap": LAPS, "rounds": rounds}
    assert documents.rewritten("README.md", before, there) == after
    assert documents.rewritten("README.md", after, there) == after


def test_the_line_below_has_the_pace_of_the_machines() -> None:
    quick, slow = ({**LAPS, "machine": {"million_steps_ms": ms}} for ms in (9.4, 27.9))
    text = "[a](docs/records/bench.json), [b](docs/records/lap.json)"
    for there, shown in (
        ({"bench": quick, "lap": quick}, "*Measured at f0ef29b, 2026-11-21; a million steps of Python took 9 ms.*"),
        (
            {"bench": slow, "lap": quick},
            "*Measured at f0ef29b, 2026-11-21; a million steps of Python took 9 to 28 ms.*",
        ),
        ({"bench": LAPS, "lap": LAPS}, "*Measured at f0ef29b, 2026-11-21.*"),
    ):
        assert documents.rewritten("README.md", text, there) == f"{text}\n\n{shown}"


@pytest.mark.parametrize(
    ("document", "text", "there", "shown"),
    [
        (
            "README.md",
            "In these records it was kept by\n`flink`; more",
            {"bench-flink": {"promises": "broken"}, "bench-spark": {"promises": "broken"}},
            "In these records it was kept by none; more",
        ),
        (
            "README.md",
            "In these records it was kept by none;",
            {"bench-flink": {"promises": "kept"}, "bench-spark": {"promises": "kept"}},
            "In these records it was kept by `flink` and `spark`;",
        ),
        (
            "docs/airflow.md",
            "9 rounds, 9 of them while\n`deploy` ran.",
            {"airflow-drill": {"rounds": [{"during": "running", "killed": 1}, {"during": "success", "killed": 0}]}},
            "2 rounds, 1 of them while `deploy` ran.",
        ),
        (
            "docs/engines.md",
            "| engine, guarantee, state | old |\n| --- | --- |\n| gone | 7 |\n\nmore",
            {
                "tests": {
                    "tests": {
                        f"tests/conformance/test_scenarios.py::test_{test}": {}
                        for test in (
                            "it_satisfies[one/exactly-once-a-title]",
                            "it_satisfies[one/exactly-once-another]",
                            "any_two_find_the_same[one/exactly-once-two/exactly-once/heap]",
                            "every_message_has_its_key[one/exactly-once]",
                            "every_message_has_its_key[two/exactly-once/heap]",
                        )
                    }
                }
            },
            "| engine, guarantee, state | scenarios | checks of the tape |\n| --- | --- | --- |\n"
            "| one/exactly-once | 2 | 1 |\n| two/exactly-once/heap | 0 | 1 |\n\nmore",
        ),
        (
            "README.md",
            "Time from then to the\nfirst new output: [kafka-1 99 s](docs/records/watch.json), goal 1 s. Then more",
            {"watch": {"seconds": {"kafka-1": 5.0, "flink-taskmanager": 3.4, "job of Spark": 9.1}}},
            "Time from then to the first new output: [flink-taskmanager 3 s](docs/records/watch.json), goal 10 s; "
            "[kafka-1 5 s](docs/records/watch.json), goal 15 s; "
            "[flink-jobmanager not measured](docs/records/watch.json), goal 30 s; "
            "[job of Flink not measured](docs/records/watch.json), goal 30 s; "
            "[job of Spark 9 s](docs/records/watch.json), goal 30 s. Then more\n\n"
            "*Measured at fffffff, 2026-11-21.*",
        ),
        (
            "docs/decisions/0046-ledger.md",
            "| MB of memory | first quarter |\n| --- | --- |\n| not measured |  |\n\nmore",
            {"endless": {"quarters_mb": {"kafka-1": [310, 320, 320, 321]}}},
            "| MB of memory | first quarter | second | third | last |\n| --- | --- | --- | --- | --- |\n"
            "| kafka-1 | 310 | 320 | 320 | 321 |\n\nmore",
        ),
        (
            "docs/decisions/0067-flink-on-stage.md",
            "| processor time of a message | declared |\n| --- | --- |\n| not measured |  |\n\nmore",
            {
                "cost-flink-on-stage": {
                    "flink": {
                        "cpu_us_per_message": {"declared": {"median": 25.1}, "on Stage": {"median": 20.4}},
                        "ratio": {"median": 1.23, "least": 1.2, "most": 1.31},
                    }
                }
            },
            "| processor time of a message | declared | on Stage | ratio, and its range |\n"
            "| --- | --- | --- | --- |\n"
            "| [Flink](../records/cost-flink-on-stage.json) | 25 µs | 20 µs | 1.23 (1.20 to 1.31) |\n\n"
            "*Measured at fffffff, 2026-11-21.*\n\nmore",
        ),
    ],
)
def test_a_sentence_is_computed_from_all_its_records(document: str, text: str, there: Any, shown: str) -> None:
    all_ = {name: recorded("f" * 40, name, **figures) for name, figures in there.items()}
    assert documents.rewritten(document, text, all_) == shown


def test_a_profile_shows_each_side_in_its_own_column() -> None:
    sides = {"declared": {"reading JSON": 30, "the engine": 70}, "on Stage": {"reading JSON": 50, "the engine": 50}}
    cpu = {"declared": {"median": 20.0}, "on Stage": {"median": 10.0}}
    flink = {"samples": sides, "cpu_us_per_message": cpu}
    there = {"profile-flink-on-stage": recorded("f" * 40, "profile-flink-on-stage", flink=flink)}
    before = "| µs of a message | [not measured](../records/profile-flink-on-stage.json) |\n| --- | --- |"
    table = documents.rewritten("docs/decisions/0067-flink-on-stage.md", before, there)
    assert "[Flink, on Stage](../records/profile-flink-on-stage.json)" in table
    assert "| reading JSON | 6.0 | 5.0 |" in table
    assert documents.rewritten("docs/decisions/0067-flink-on-stage.md", before, {}).startswith(before)


def test_a_side_whose_sender_was_late_has_batches_and_no_latency() -> None:
    took = {"count": 3, "p50_ms": 400, "p99_ms": 900}
    latencies = [{"name": name, **took} for name in ("alerts", "enriched", "hop")]
    side = {"run": {"rate_per_s": 4_999.7}, "latencies": latencies, "batches": {**took, "rows_per_s": 7_012}}
    side["events_per_cpu_s"] = {"spark": 3_100}
    figures = {"declared": side, "in Python": {**side, "latencies": []}}
    there = {"pace-spark-in-python": recorded("f" * 40, "pace-spark-in-python", **figures)}
    before = "| live traffic | [not measured](../records/pace-spark-in-python.json) |\n| --- | --- |"
    table = documents.rewritten("docs/decisions/0066-spark-memory-in-python.md", before, there)
    assert "| events a second | 5,000 | 5,000 |" in table
    assert "| alerts, p50 / p99 | 400 / 900 ms | not counted: the sender was late |" in table
    assert "| a batch, p50 / p99 | 400 / 900 ms | 400 / 900 ms |" in table
    assert "| rows in a second of a batch | 7,012 | 7,012 |" in table
    assert "| events per second of processor time | 3100 | 3100 |" in table
    assert documents.rewritten("docs/decisions/0066-spark-memory-in-python.md", before, {}).startswith(before)


def test_every_engine_has_its_column_of_loads_by_its_own_pattern_where_that_is_measured() -> None:
    behind = {"bench-flink": {}, "bench-flink-spark": {}, "bench-storm-spark": {}}
    (head, _, alerts, *_) = documents.loads(behind).splitlines()
    assert (
        head == "| measured | Flink (`flink`) | Spark (`spark`) | Storm (`storm-spark`) | Kafka Streams (`streams`) |"
    )
    assert "[alerts not measured](records/bench-storm-spark.json)" in alerts
    assert "Storm (`storm`)" in documents.loads(behind | {"bench-storm": {}})


def test_each_benched_pattern_has_its_delays_beside_the_hop() -> None:
    timed = [
        {"name": "alerts", "p50_ms": 1, "p99_ms": 30, "count": 9},
        {"name": "hop", "p50_ms": 0, "p99_ms": 20, "count": 9},
        {"name": "windows", "p50_ms": 7_200, "p99_ms": 9_270, "count": 9},
    ]
    measured = {
        f"bench-{name}": recorded("f" * 40, f"bench-{name}", latencies=timed[:n])
        for name, n in {"storm": 2, "flink": 3}.items()
    }
    head, _, *rows = documents.delays(measured).splitlines()
    assert head.count("|") == rows[0].count("|")
    assert rows == [
        "| [`flink`](records/bench-flink.json) | 1 / 30 ms | 0 / 20 ms | 1.5 | 7.2 / 9.3 s |",
        "| [`storm`](records/bench-storm.json) | 1 / 30 ms | 0 / 20 ms | 1.5 | none |",
    ]


def test_the_rows_of_patterns_name_the_engines_of_their_files() -> None:
    told = documents.rewritten("README.md", "| `storm` | Flink | Flink | x |\n| `flink-spark` | a | b | x |", {})
    assert told == "| `storm` | Storm | none | x |\n| `flink-spark` | Flink | Spark | x |"


def test_a_table_without_its_record_has_a_link_that_is_no_figure() -> None:
    killed = {"worker": {"at-most-once": defaultdict(int)}}
    there = {"storm-kills": recorded("f" * 40, "storm-kills", killed=killed)}
    before = documents.rewritten("docs/engines.md", "| guarantee | killed |\n| old |", {})
    assert "[not measured](records/storm-kills.json)" in before
    assert "| [at-most-once](records/storm-kills.json) | worker | 0 |" in documents.rewritten(
        "docs/engines.md", before, there
    )


def test_long_runs_spoilings_and_the_hour_of_fuzzing_are_written_from_their_records_each_alone() -> None:
    commit, counted = "f" * 40, {"accepted": 99_000, "copies": 3, "events lost": 0, "alerts lost": 0}
    counted |= {"alerts of others": 2, "back after s": 7.1}
    long_runs = {"long-runs": recorded(commit, "long-runs", variants={"flink": counted})}
    spoilt = {"self-test": recorded(commit, "self-test", noticed={"flink": 112})}
    assert documents.long_runs(long_runs).endswith(
        "| [`flink`](records/long-runs.json) | 99,000 | 3 | 0 | 0 | 2 | 7.1 |"
    )
    assert "[not measured](records/long-runs.json)" in documents.long_runs(spoilt)
    assert documents.spoilings(spoilt).endswith("| [`flink`](records/self-test.json) | 112 |")
    assert "[not measured](records/self-test.json)" in documents.spoilings(long_runs)
    tried = recorded(commit, "fuzz", minutes=60.0, properties=1_240, rounds=9, found=[])
    hour = documents.rewritten("CONTRIBUTING.md", documents.hour_of_fuzzing({}), {"fuzz": tried})
    assert "property tests 1,240 times" in hour
    assert "9 rounds on the engines; none failed: [record](docs/records/fuzz.json)" in hour


def test_the_command_ends_with_1_exactly_when_it_lists_something() -> None:
    run: Callable[..., Any] = subprocess.run
    done = run([sys.executable, "-m", "lab.records", "--json"], cwd=PROJECT, capture_output=True, text=True)
    listed = json.loads(done.stdout)
    assert done.returncode == (1 if listed else 0), done.stderr
    for each in listed:
        assert {"record", "commit", "date", "reason", "changed", "places", "command", "minutes"} <= set(each)
        assert each["places"][0].keys() == {"document", "line", "text", "record"}
    unknown = run([sys.executable, "-m", "lab.records", "speed"], cwd=PROJECT, capture_output=True, text=True)
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "no row speed" in unknown.stderr
