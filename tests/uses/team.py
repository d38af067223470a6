"""A project beside the clone, whose patterns run on the tests' stack."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from millrace import stack as stacks
from millrace.machine.environments import command
from millrace.settings import Settings
from tests.uses import tape


class Team:
    """The command line in that project."""

    def __init__(self, stack: Settings, folder: Path) -> None:
        self.environ = {**os.environ, **stack.environment(), "MILLRACE_PROJECT": str(folder)}
        self.command = str(command(stack))
        self.bootstrap = stacks.addresses(stack)["KAFKA_BOOTSTRAP"]

    def millrace(self, *words: str, exits: Collection[int] = (0,)) -> dict[str, Any]:
        done = subprocess.run([self.command, *words, "--json"], env=self.environ, capture_output=True, text=True)
        answer: dict[str, Any] = json.loads(done.stdout or "{}")
        checks = answer.get("checks", ())
        assert done.returncode in exits, (words, [each for each in checks if each["status"] != "ok"], done.stderr)
        return answer

    @contextmanager
    def proven(
        self,
        patterns: Iterable[str],
        plan: Callable[[str], Iterable[tape.Due]],
        exits: Collection[int] = (0,),
        before_verdict: Callable[[], object] = lambda: None,
    ) -> Iterator[Mapping[str, dict[str, Any]]]:
        """The verdicts on patterns that run at once, each on a tape."""

        def output(pattern: str) -> str:
            self.millrace("provision", pattern)
            self.millrace("deploy", pattern)
            tape.send(self.bootstrap, plan(pattern))
            return pattern

        def verdict(pattern: str) -> dict[str, Any]:
            return self.millrace("validate", pattern, exits=exits)

        names = [*patterns]
        try:
            with ThreadPoolExecutor() as all_at_once:
                ran = [*all_at_once.map(output, names)]
                before_verdict()
                yield dict(zip(ran, all_at_once.map(verdict, ran), strict=True))
        finally:
            for pattern in names:
                self.millrace("teardown", pattern, "--data", "--yes")
