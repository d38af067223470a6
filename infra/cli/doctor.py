"""millrace doctor: what this machine lacks, and the remedy for each lack."""

import json
from collections.abc import Mapping
from dataclasses import asdict

from rich.console import Console

from infra import prerequisites, processes
from infra.prerequisites import Finding
from infra.settings import Settings


def doctor(settings: Settings, environ: Mapping[str, str], console: Console, as_json: bool = False) -> int:
    """Prints every finding and returns the exit code: 0 when nothing that is needed is missing, else 1."""
    running = processes.records(settings.state / "run").values()
    ours = {port for record in running if processes.alive(record) for _, port in processes.listening(record)}
    findings = prerequisites.check(settings, environ, ours)
    healthy = all(finding.ok for finding in findings if finding.needed)
    if as_json:
        print(json.dumps({"ok": healthy, "findings": [asdict(finding) for finding in findings]}, indent=1))
    else:
        for finding in findings:
            _print(finding, console)
    return 0 if healthy else 1


def _print(finding: Finding, console: Console) -> None:
    word, style = ("ok", "green") if finding.ok else ("missing", "red") if finding.needed else ("absent", "yellow")
    console.print(f"[{style}]{word:7}[/]", f"{finding.name:19}", end=" ")
    console.print(finding.found, markup=False, highlight=False, soft_wrap=True)
    if not finding.ok:
        console.print(f"{'':28}{finding.remedy}", markup=False, highlight=False, soft_wrap=True)
