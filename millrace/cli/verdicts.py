"""millrace verdicts: the ledgers of patterns."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from millrace.cli.changes import complete_patterns, known_pattern
from millrace.cli.printing import Json, print_json, print_rows, progress, result_console, settings
from millrace.settings import LEDGERS_EVERY_S

if TYPE_CHECKING:
    from millrace.verify.ledger.chain import Chain, Entry, Span

COLUMNS = ("pattern", "from", "to", "verdict", "segments", "messages", "why")


def verdicts(
    pattern: Annotated[
        str,
        typer.Argument(
            metavar="[PATTERN]",
            help="Name of a pattern; without it, all that were deployed with --verdicts.",
            autocompletion=complete_patterns,
            callback=lambda name: known_pattern(name) if name else name,
            show_default=False,
        ),
    ] = "",
    update: Annotated[
        bool,
        typer.Option(
            "--update",
            help="First judge the segments that have ended since the last entry; exit code 0 then means that the "
            f"entries of the last {2 * LEDGERS_EVERY_S / 60:.0f} minutes are ok or assumed, whoever wrote them, and "
            "that no entry of the ledger was altered.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Print the ledger of a pattern: from when to when its output was ok, what was not, and why.

    `millrace validate PATTERN --continuous` writes it, and so does `--update`. Each entry is the verdict on one segment
    and carries the digest of the entry before: an altered one is reported. The last one is compared with the state that
    was written with it, where that is there. `assumed` means that all checks are ok, but earlier messages were deleted
    before they were judged. Without --update, exit code 0 only if every segment is ok.

    Examples:
    millrace verdicts flink-spark
    millrace verdicts --update --json
    """
    from millrace import deployments
    from millrace.patterns import names
    from millrace.target import Target
    from millrace.verbs import ledger

    target = Target.read(settings())
    wanted = [pattern] if pattern else [name for name in names() if deployments.is_judged(target, name)]
    since_ms = (time.time() - 2 * LEDGERS_EVERY_S) * 1000
    for name in wanted if update else ():
        ledger.update(target, name, report=progress)
    chains = {name: ledger.verdicts(target, name) for name in wanted}
    newest = {
        name: ledger.written_since(target, name, since_ms) if update else chain.entries[-1:]
        for name, chain in chains.items()
    }
    if json:
        print_json("verdicts", patterns={name: as_data(chain, newest[name]) for name, chain in chains.items()})
    elif not chains:
        progress("no pattern has a ledger; `millrace deploy PATTERN --verdicts` begins one")
    else:
        print_chains(chains)
    if not all(is_well(chain, newest[name]) if update else chain.status == "ok" for name, chain in chains.items()):
        raise typer.Exit(1)


def is_well(chain: "Chain", newest: "Sequence[Entry]") -> bool:
    """Whether the newest entries are ok, as far as the oracle has seen what they rest on, and no entry was altered."""
    return not chain.breaks and all(entry.status in ("ok", "assumed") for entry in newest)


def as_data(chain: "Chain", newest: "Sequence[Entry]") -> dict[str, object]:
    """The chain as JSON: its timeline, its newest entries, its last one."""
    from dataclasses import asdict

    return {
        "verdict": chain.status,
        "spans": [asdict(span) for span in chain.spans()],
        "breaks": list(chain.breaks),
        "uncompared": chain.uncompared,
        "entries": len(chain.entries),
        "newest": [{"number": each.number, "status": each.status, "causes": each.causes} for each in newest],
        "last": asdict(chain.entries[-1]) if chain.entries else None,
    }


def print_chains(chains: "Mapping[str, Chain]") -> None:
    """Print a line for each span, its causes, and the breaks of the chains."""
    print_rows([COLUMNS, *(_row(name, span) for name, chain in chains.items() for span in chain.spans())])
    console = result_console()
    for name, chain in chains.items():
        for each in chain.breaks:
            console.print(f"{name} is broken: {each}", markup=False, highlight=False)
        if chain.uncompared and chain.entries:
            console.print(
                f"{name}: the chain alone was read, and not the state behind its last entry: {chain.uncompared}",
                markup=False,
                highlight=False,
            )
        if chain.entries:
            last = chain.entries[-1]
            waiting = ", ".join(f"{count} {what}" for what, count in last.pending.items()) or "nothing"
            until = _moment(last.whole_until_ms)
            console.print(f"{name} is judged until {until}; pending: {waiting}", markup=False, highlight=False)
        else:
            console.print(
                f"the ledger of {name} is empty; `millrace deploy {name} --verdicts` or `millrace verdicts {name} "
                "--update` begins it",
                markup=False,
            )


def _row(name: str, span: "Span") -> tuple[str, ...]:
    why = "; ".join(span.causes[:3])
    return name, _moment(span.since_ms), _moment(span.until_ms), span.status, str(span.entries), str(span.messages), why


def _moment(at_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at_ms / 1000))
