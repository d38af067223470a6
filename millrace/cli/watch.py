"""millrace watch: restart servers and jobs that die."""

from typing import Annotated

import typer

from millrace import stack
from millrace.cli.printing import Json, print_json, print_rows, refuse_json, report, settings
from millrace.errors import UsageError


def watch(
    journal: Annotated[
        bool, typer.Option("--journal", help="Print the failures and restarts that the watcher has recorded, and exit.")
    ] = False,
    stop: Annotated[bool, typer.Option("--stop", help="Stop the watcher that `up` started, and exit.")] = False,
    json: Json = False,
) -> None:
    """Run the watcher until Ctrl-C: it restarts servers and jobs that die or hang.

    `millrace up` starts it in the background, `millrace down` stops it with the servers, and --stop stops it alone. A
    server that hangs is killed and restarted once it has not been ready for 180 s, one of Airflow's for 300 s, the
    dashboard for 60 s. After five restarts within ten minutes the state of a server or job is given-up, until the next
    `up` or `deploy`. A job that crash-loops is restarted by its engine, without limit: the journal records when the
    loop begins and ends, and `millrace jobs` shows the error.

    Examples:
    millrace watch --journal
    millrace watch --stop
    millrace watch
    """
    from millrace.verbs import watch as watching
    from millrace.verbs.watch.journal import Journal

    chosen = settings()
    if stop and journal:
        raise UsageError("--stop and --journal are two commands")
    if stop:
        did_run = watching.end(chosen)
        report(stack.WATCH, "stopped" if did_run else "did not run")
        if json:
            print_json("watch", stopped=did_run)
        return
    if not journal:
        refuse_json(json, "`millrace watch --journal --json` prints what the watcher did")
        if pid := stack.watch_status(chosen).pid:
            raise UsageError(f"a watcher is running (pid {pid}); `millrace watch --journal` shows what it did")
        watching.run(chosen)
        return
    entries = Journal.of(chosen).read()
    if json:
        print_json("watch", journal=entries)
    else:
        print_rows((each["at"], each["subject"], each["event"], each.get("detail", "")) for each in entries)
