"""Every server's files, compared with those that are known to work.

After a deliberate change: pytest tests/infra/test_configurations.py --write-golden, then read the difference.
"""

from pathlib import Path

import pytest

from millrace.patterns.model import Pattern
from millrace.servers.kafka import OFFSETS_RETENTION_MINUTES
from millrace.settings import Settings
from millrace.stack.services import PROFILES, services

GOLDEN = Path(__file__).parent / "golden"

# A space and a letter beyond ASCII, so that the golden files show how each format writes them.
SETTINGS = Settings(Path("/project"), Path("/home/someone/.cache/millrace"), Path("/home/someone/my stück"), 20000)


def rendered(profiles: list[str]) -> dict[str, str]:
    return {
        f"{server.conf.name}/{name}": text
        for service in services(SETTINGS, profiles).values()
        for server in service.servers
        for name, text in server.files().items()
    }


def read(folder: Path) -> dict[str, str]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def write(folder: Path, files: dict[str, str]) -> None:
    for name in read(folder):
        (folder / name).unlink()
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def different_from_default(profile: str) -> dict[str, str]:
    default = rendered([])
    return {name: text for name, text in rendered([profile]).items() if default.get(name) != text}


@pytest.mark.parametrize("profile", ["default", *PROFILES])
def test_configurations_are_those_known_to_work(profile: str, pytestconfig: pytest.Config) -> None:
    files = rendered([]) if profile == "default" else different_from_default(profile)
    if pytestconfig.getoption("--write-golden"):
        write(GOLDEN / profile, files)
    assert files == read(GOLDEN / profile)


def test_no_configuration_listens_on_every_address() -> None:
    everything = [*rendered(["durable"]).values(), *rendered([]).values(), *rendered(["spark-cluster"]).values()]
    assert not [text for text in everything if "0.0.0.0" in text or "://:" in text]


def test_a_broker_keeps_committed_offsets_for_longer_than_a_pattern_may_keep_messages() -> None:
    hours = Pattern.model_json_schema()["properties"]["retention_hours"]["maximum"]
    brokers = {name: text for name, text in rendered(["durable"]).items() if name.endswith("server.properties")}
    assert len(brokers) == 3
    assert all(f"offsets.retention.minutes={OFFSETS_RETENTION_MINUTES}\n" in text for text in brokers.values())
    assert hours * 60 < OFFSETS_RETENTION_MINUTES
