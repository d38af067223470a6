"""millrace customer: one customer, from HBase."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.table import Table

from millrace.cli.printing import Json, fields, print_json, result_console, settings


def customer(
    customer_id: Annotated[
        str, typer.Argument(metavar="ID", help="Id of the customer; `millrace topics tail` prints it with each alert.")
    ],
    pattern: Annotated[
        str, typer.Option("--pattern", metavar="PATTERN", help="The pattern whose tables to read.")
    ] = "flink-spark",
    last: Annotated[
        int, typer.Option("--last", metavar="COUNT", min=1, max=1000, help="How many transactions to show.")
    ] = 10,
    json: Json = False,
) -> None:
    """Show one customer, from HBase.

    The output has the highest amount so far, the last place of the phone, the number of alerts by rule, and the latest
    transactions.

    Examples:
    millrace customer run-c00001
    millrace customer run-c00001 --pattern flink --last 50 --json
    """
    from millrace.target import Target
    from millrace.verbs import customers

    found = customers.read(Target.read(settings()), pattern, customer_id, last)
    if json:
        print_json("customer", pattern=pattern, **fields(found))
        return
    console = result_console()
    console.print(f"[bold]{customer_id}[/bold]")
    console.print(f"highest amount   {_euros(found.highest_cents)}")
    phone = found.phone
    console.print(
        f"phone            {phone['latitude']}, {phone['longitude']} at {_time(phone['at_ms'])}"
        if phone
        else "phone            never reported"
    )
    console.print(f"alerts           {', '.join(f'{rule}: {n}' for rule, n in sorted(found.alerts.items())) or 'none'}")
    table = Table(
        "time", "transaction", "merchant", "category", "amount", "km from phone", "flags", box=None, header_style="bold"
    )
    for each in found.transactions:
        table.add_row(
            _time(each["at_ms"]),
            each["transaction_id"],
            each["merchant"],
            each["merchant_category"],
            _euros(each["amount_cents"]),
            f"{each['km_from_phone']:.1f}" if each.get("km_from_phone") is not None else "",
            ", ".join(each["flags"]),
        )
    console.print(table)


def _euros(cents: Any) -> str:
    return "none" if cents is None else f"{cents / 100:.2f}"


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
