"""One base gives every port, and the environment is read in one place."""

import json
from pathlib import Path

import pytest

from millrace.errors import InfraError
from millrace.settings import PORT_BASE_DEFAULT, PORTS, PORTS_PER_STACK, Settings
from millrace.stack.services import PROFILES, services

HERE = Settings(Path("/project"), Path("/home/one"), Path("/state"), 21000)


def test_no_two_doors_share_a_port_and_a_second_stack_takes_the_next_hundred() -> None:
    assert len(set(PORTS.values())) == len(PORTS)
    assert all(0 <= offset < PORTS_PER_STACK for offset in PORTS.values())


@pytest.mark.parametrize("profile", [None, *PROFILES])
def test_every_door_of_every_server_comes_from_the_table(profile: str | None) -> None:
    servers = [
        server for service in services(HERE, [profile] if profile else []).values() for server in service.servers
    ]
    doors = [port for server in servers for port in server.doors.values()]
    assert len(set(doors)) == len(doors)
    assert {port - HERE.port_base for port in doors} <= set(PORTS.values())


def test_one_word_is_enough_for_the_port_that_clients_use() -> None:
    assert HERE.port("kafka") == HERE.port("kafka-1") == 21001


def test_the_environment_decides_where_a_stack_lives(tmp_path: Path) -> None:
    found = Settings.read(
        {"MILLRACE_HOME": "/h", "MILLRACE_STATE": str(tmp_path), "MILLRACE_PORT_BASE": "22000", "HOME": "/home/one"}
    )
    assert (found.home, found.state, found.port_base) == (Path("/h"), tmp_path, 22000)


def test_without_an_environment_there_are_defaults(tmp_path: Path) -> None:
    found = Settings.read({"HOME": "/home/one", "MILLRACE_STATE": str(tmp_path)})
    assert (found.home, found.port_base) == (Path("/home/one/.cache/millrace"), PORT_BASE_DEFAULT)


def test_a_stack_remembers_its_ports(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text(json.dumps({"port_base": 24000, "profiles": []}))
    assert Settings.read({"HOME": "/home/one", "MILLRACE_STATE": str(tmp_path)}).port_base == 24000


@pytest.mark.parametrize("text", ["", "80", "40000", "20000.5", "many"])
def test_a_base_that_leaves_no_room_is_refused_with_one_that_does(tmp_path: Path, text: str) -> None:
    environ = {"HOME": "/home/one", "MILLRACE_STATE": str(tmp_path), "MILLRACE_PORT_BASE": text}
    if not text:
        assert Settings.read(environ).port_base == PORT_BASE_DEFAULT
        return
    with pytest.raises(InfraError, match="for example 20000"):
        Settings.read(environ)


def test_the_folder_of_patterns_makes_no_other_stack(tmp_path: Path) -> None:
    """Airflow passes it on, the command line need not: both use the same servers."""
    state = {"MILLRACE_STATE": str(tmp_path)}
    assert Settings.read(state) == Settings.read(state | {"MILLRACE_PATTERNS": str(tmp_path / "patterns")})
