"""millrace topics: the messages of a pattern's topics."""

import json as json_
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from millrace.cli.alerts import alert_line
from millrace.cli.changes import RunName
from millrace.cli.command import Command, Group
from millrace.cli.printing import Json, print_json, print_rows, result_console, settings
from millrace.errors import UsageError

if TYPE_CHECKING:
    from millrace.oracle import Record

topics = typer.Typer(cls=Group, help="List the topics of a pattern, or read one.", no_args_is_help=True)


@topics.command("list", cls=Command)
def list_topics(pattern: RunName, json: Json = False) -> None:
    """List the topics of a pattern: the kind of message, and the topic's name in Kafka.

    Examples:
    millrace topics list flink-spark
    """
    from millrace.patterns import load
    from millrace.patterns import topics as topics_of

    found = topics_of(load(pattern))
    if json:
        print_json("topics list", pattern=pattern, topics=found)
    else:
        print_rows(found.items())


@topics.command("tail", cls=Command)
def tail_topic(
    pattern: RunName,
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND", help="Kind of message, such as alerts or dead-letters; `millrace topics list` lists them."
        ),
    ],
    all_: Annotated[
        bool, typer.Option("--all", help="Print all messages from the first to the last, then exit.")
    ] = False,
    rule: Annotated[
        str,
        typer.Option("--rule", metavar="RULE", help="Only alerts of this rule, or enriched events that it flagged."),
    ] = "",
    key: Annotated[str, typer.Option("--key", metavar="KEY", help="Only messages with this key.")] = "",
    json: Annotated[bool, typer.Option("--json", help="Print JSON lines on a terminal, too.")] = False,
) -> None:
    """Print new messages of a topic, one per line, until Ctrl-C.

    On a terminal an alert is printed as the sentence of its rule. All else is printed as JSON lines.

    Examples:
    millrace topics tail flink-spark alerts --key ID
    millrace topics tail flink dead-letters --all --json
    """
    from millrace.alerts import rules_of
    from millrace.patterns import load
    from millrace.patterns import topics as topics_of
    from millrace.rules import ALERTS
    from millrace.stores.topics import Tail
    from millrace.target import Target

    variant = load(pattern)
    found = topics_of(variant)
    if kind not in found:
        raise UsageError(f"{pattern} has no topic for '{kind}'; choose one of: {', '.join(found)}")
    if rule and kind not in (ALERTS.name, variant.use.enriched.name):
        raise UsageError(f"--rule selects alerts and {variant.use.enriched.name} events; {kind} has no rule")
    rules = rules_of(variant)
    if rule and rule not in rules:
        raise UsageError(f"{pattern} runs no rule '{rule}'; choose one of: {', '.join(rules)}")
    as_sentences = kind == ALERTS.name and not json and result_console().is_terminal
    with closing(Tail(Target.read(settings()).bootstrap, {kind: found[kind]})) as tail:
        for record in tail.new() if all_ else tail.follow():
            if record is not None and is_chosen(record, rule, key):
                print(alert_line(record.value, rules) if as_sentences and record.value else text(record), flush=True)


def is_chosen(record: "Record", rule: str, key: str) -> bool:
    """Whether a message matches --rule and --key."""
    if not (rule or key):
        return True
    try:
        content = json_.loads(record.value or b"{}")
    except ValueError:
        content = {}
    if not isinstance(content, dict):
        content = {}
    is_of_rule = not rule or rule == content.get("rule") or rule in (content.get("flags") or ())
    is_of_key = not key or key == content.get("key") or record.key == key.encode()
    return is_of_rule and is_of_key


def text(record: "Record") -> str:
    """The value of a message."""
    return record.value.decode("utf-8", errors="replace") if record.value else ""
