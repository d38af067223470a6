"""What running jobs and readers depend on: the rules' versions, and the ids of the alerts on one tape.

A version that changes gives every alert of its rule another id, and a deployed job another generation. Where that is
meant, `python -m tests.pipelines.test_pinned` renews pinned.json; the commit says why.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from millrace.traffic import plan_for
from pipelines.fraud import FRAUD
from pipelines.fraud.traffic import TRAFFIC
from tests.pipelines.pretend import messages, ran, topics

PINNED = Path(__file__).with_name("pinned.json")
TAPE = plan_for(TRAFFIC, 1_200, 20, seed=3, name="p", customers=100, frauds=0.1, edges=0.1, races=0.02)
RENEW = "if that is meant, renew it with `python -m tests.pipelines.test_pinned` and name the reason in the commit"


def versions() -> dict[str, str]:
    declared = {each.name: each.version for each in (*FRAUD.rules, *FRAUD.summaries)}
    return declared | {"enrichment": FRAUD.enrichment.version}


def alert_ids() -> dict[str, list[str]]:
    records = ran(TAPE, topics(messages(TAPE))).outputs["alerts"] or ()
    alerts: list[dict[str, Any]] = [json.loads(record.value or b"") for record in records]
    return {
        rule.name: sorted({alert["alert_id"] for alert in alerts if alert["rule"] == rule.name}) for rule in FRAUD.rules
    }


def test_the_versions_of_rules_are_those_of_running_jobs() -> None:
    pinned = json.loads(PINNED.read_text())["versions"]
    now = versions()
    changed = [name for name in pinned.keys() | now.keys() if pinned.get(name) != now.get(name)]
    assert not changed, f"another version of {', '.join(sorted(changed))}; {RENEW}"


def test_the_same_tape_gives_the_same_alert_ids() -> None:
    pinned = json.loads(PINNED.read_text())["alert_ids"]
    now = alert_ids()
    changed = [rule for rule in pinned.keys() | now.keys() if pinned.get(rule) != now.get(rule)]
    assert not changed, f"other alert ids of {', '.join(sorted(changed))}; {RENEW}"
    assert any(pinned.values()), "no rule alerts on the tape"


def main() -> None:
    PINNED.write_text(json.dumps({"versions": versions(), "alert_ids": alert_ids()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
