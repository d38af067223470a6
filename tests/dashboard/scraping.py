"""Debian's Prometheus over a live page, with the rules of infra/prometheus, whose minutes are seconds here."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from millrace.machine.processes import wait_until
from millrace.settings import PROJECT

FOLDER = PROJECT / "infra" / "prometheus"
RULES = [rule for group in yaml.safe_load((FOLDER / "rules.yml").read_text())["groups"] for rule in group["rules"]]
STARTS_WITHIN_S = 120
MINUTES = re.compile(r"(?<=\[)(\d+)m(?=\])|(?<=for: )(\d+)m")


@contextmanager
def prometheus(port: int, page: int, folder: Path, minute_s: int) -> Iterator[None]:
    """It scrapes the page twice a second while the block runs."""
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "500ms", "evaluation_interval": "500ms"}
    own, engines = config["scrape_configs"]
    own["static_configs"][0]["targets"] = [f"127.0.0.1:{page}"]
    engines["http_sd_configs"][0] |= {"url": f"http://127.0.0.1:{page}/targets", "refresh_interval": "1s"}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    (folder / "rules.yml").write_text(shortened((FOLDER / "rules.yml").read_text(), minute_s))
    words = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{port}"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(["prometheus", *words], cwd=folder, stdout=log, stderr=subprocess.STDOUT)
    try:
        assert wait_until(lambda: is_ready(port), STARTS_WITHIN_S), (folder / "log").read_text()
        yield
    finally:
        process.terminate()
        process.wait(30)


def shortened(rules: str, minute_s: int) -> str:
    """The rules with so many seconds for each minute."""
    return MINUTES.sub(lambda found: f"{int(found[1] or found[2]) * minute_s}s", rules)


def is_ready(port: int) -> bool:
    """Whether it answers."""
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5).close()
    except OSError:
        return False
    return True


def firing(port: int) -> set[str]:
    """The alerts that fire now."""
    return {each["metric"]["alertname"] for each in results(port, 'ALERTS{alertstate="firing"}')}


def lasting(port: int) -> set[str]:
    """The alerts whose condition was met within two seconds: one scrape that fails ends it for a moment."""
    return {each["metric"]["alertname"] for each in results(port, "max_over_time(ALERTS[2s])")}


def addresses(port: int) -> dict[str, str]:
    """Of the alerts that fire now, where their pages are served."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/alerts", timeout=10) as answer:
        found = json.load(answer)["data"]["alerts"]
    return {
        each["labels"]["alertname"]: each["annotations"]["runbook_url"] for each in found if each["state"] == "firing"
    }


def results(port: int, query: str) -> list[dict[str, Any]]:
    """What a query gives now."""
    asked = urllib.parse.urlencode({"query": query})
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{asked}", timeout=10) as answer:
        found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found
