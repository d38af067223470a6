"""The events of the flood use: requests to a web server, as in the EDGAR logs of sec.gov."""

from millrace.rules import EventType, Text, Whole

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000

DISORDER_MS = SECOND_MS
"""How far behind the newest request another may arrive and still be counted."""
REFUSED = (401, 403)
"""The statuses of a refused log-in."""

IP = r"[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.[a-z]{3}"  # the logs hide the last octet behind three letters
ACCESSION = r"[0-9]{10}-[0-9]{2}-[0-9]{6}"

# A request has no id: identical neighbours in a log are separate requests.
requests = EventType(
    "requests",
    "A request to the web server, with the status of its answer.",
    (
        Text("ip", pattern=IP, max_length=15),
        Text("group_id", pattern=r"[0-9]+", max_length=5),  # groups.py
        Whole("at_ms", least=0),
        Whole("zone", least=-1_400, most=1_400),
        Whole("cik", least=0, most=9_999_999_999),
        # The digits of document numbers pass Luhn's check by chance.
        Text("accession", pattern=ACCESSION, max_length=20, may_pass_luhn=True),
        Text("extention", pattern=r"[!-~]+", max_length=256, may_pass_luhn=True),
        Whole("code", least=100, most=599),
        Whole("size", least=0, most=99_999_999_999),
        Whole("idx", least=0, most=1),
        Whole("norefer", least=0, most=1),
        Whole("noagent", least=0, most=1),
        Whole("find", least=0, most=10),
        Whole("crawler", least=0, most=1),
        Text("browser", max_length=16, required=False),
    ),
    key="group_id",
    time="at_ms",
    past_ms=7 * DAY_MS,  # a replayed day begins in the past
    future_ms=MINUTE_MS,
    max_bytes=4_096,
)
