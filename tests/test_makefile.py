import os
import re
import subprocess

from millrace.settings import PROJECT

VERBS = ["help", "setup", "check", "test", "drill", "fuzz", "up", "down", "demo", "bench", "records"]


def make(*words: str) -> str:
    return subprocess.run(["make", *words], cwd=PROJECT, check=True, capture_output=True, text=True).stdout


def test_every_verb_has_a_description() -> None:
    assert re.findall(r"^(\w+) +\S", make("help"), re.MULTILINE) == VERBS


def test_every_verb_can_be_planned() -> None:
    for verb in VERBS:
        make("--dry-run", verb)


def test_a_set_up_clone_is_set_up_within_a_moment() -> None:
    make("setup")
    before = os.times()
    make("setup")
    after = os.times()
    # Of the processor and not of the clock, so that a busy machine does not matter; 0.4 s of both on a quiet one.
    assert after.children_user + after.children_system - before.children_user - before.children_system < 2
