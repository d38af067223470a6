"""millrace dashboard: the live page."""

from millrace.cli.printing import result_console, settings
from millrace.machine import processes


def dashboard() -> None:
    """Serve the live page until Ctrl-C: events, alerts, latencies, refusals and verdicts of all patterns.

    `millrace up` starts it beside the servers; `millrace status` shows its address. This runs it in the foreground,
    also for the servers of a MILLRACE_TARGET.

    Examples:
    millrace dashboard
    MILLRACE_TARGET=existing millrace dashboard
    """
    from millrace.servers.dashboard import url

    chosen, console = settings(), result_console()
    record = processes.read(chosen.run / "dashboard.json")
    if record is not None and processes.alive(record):
        console.print(f"the live page is served already (pid {record.pid}): {url(chosen)}")
        return
    from millrace.dashboard.__main__ import serve

    console.print(f"the live page: {url(chosen)}   Ctrl-C ends it")
    serve(chosen)
