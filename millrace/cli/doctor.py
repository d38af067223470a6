"""millrace doctor: the prerequisites on this machine, with remedies."""

import os
from typing import Annotated

import typer
from rich.console import Console

from millrace.cli.printing import Json, print_json, print_rows, result_console, settings
from millrace.machine import prerequisites, processes, registries
from millrace.machine.prerequisites import Finding
from millrace.settings import Settings


def doctor(
    tests: Annotated[bool, typer.Option("--tests", help="Also check what `make test` needs.")] = False,
    json: Json = False,
) -> None:
    """Check the prerequisites on this machine, and print a remedy for each that is missing.

    Exit code 1 if a required one is missing. A missing optional one is `absent`.

    Examples:
    millrace doctor
    millrace doctor --tests --json
    """
    chosen = settings()
    findings = prerequisites.check(chosen, os.environ, own_ports(chosen))
    if tests:
        findings += prerequisites.for_tests(chosen, os.environ)
        if not prerequisites.lacks(findings):
            findings += registries.reached(chosen, tests)
    healthy = all(finding.ok for finding in findings if finding.needed)
    if json:
        print_json("doctor", ok=healthy, findings=findings)
    else:
        print_findings(findings, result_console())
    if not healthy:
        raise typer.Exit(1)


def own_ports(settings: Settings) -> set[int]:
    """The ports on which the stack of these settings listens."""
    running = [record for record in processes.records(settings.state / "run").values() if processes.alive(record)]
    return {port for record in running for _, port in processes.listening(record)}


def print_findings(findings: list[Finding], console: Console) -> None:
    if not console.is_terminal:
        print_rows((word(finding)[0], finding.name, finding.found, finding.remedy) for finding in findings)
        return
    for finding in findings:
        shown, style = word(finding)
        console.print(f"[{style}]{shown:7}[/] {finding.name:19}", end=" ")
        console.print(finding.found, markup=False)
        if not finding.ok:
            console.print(f"{'':28}{finding.remedy}", markup=False)


def word(finding: Finding) -> tuple[str, str]:
    """The word and the colour for a finding."""
    if finding.ok:
        return "ok", "green"
    return ("missing", "red") if finding.needed else ("absent", "yellow")
