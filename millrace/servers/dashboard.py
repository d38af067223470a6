"""The live page, served by the interpreter of the command line."""

import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from millrace.charts import PACKAGES
from millrace.machine import environments, npm
from millrace.servers.server import LOOPBACK, Server
from millrace.settings import Settings


@dataclass(frozen=True)
class Dashboard(Server):
    """One process, which needs no other server: the page shows what is down."""

    within_s: ClassVar[float] = 60

    @property
    def name(self) -> str:
        return "dashboard"

    @property
    def doors(self) -> Mapping[str, int]:
        return {"http": self.settings.port("dashboard")}

    @property
    def web(self) -> str:
        return url(self.settings)

    @property
    def log(self) -> Path:
        return self.output  # it prints its log and does not rotate it

    def unpack(self) -> None:
        npm.ensure(self.settings, PACKAGES)

    def command(self) -> list[str]:
        return [str(environments.command(self.settings).with_name("python")), "-m", "millrace.dashboard"]

    def environment(self) -> dict[str, str]:
        # Otherwise malloc raises both with each large block that is freed, and then keeps what it frees.
        returned = dict.fromkeys(("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), "65536")
        return super().environment() | returned | {"PYTHONPATH": str(environments.python_path(self.settings))}

    def is_ready(self, since: float) -> bool:
        try:
            with urllib.request.urlopen(f"{url(self.settings)}up", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def url(settings: Settings) -> str:
    """The address of the page."""
    return f"http://{LOOPBACK}:{settings.port('dashboard')}/"
