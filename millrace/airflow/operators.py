"""Tasks: each calls one verb of the command line and returns its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import Asset, BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from millrace.airflow import reports
from millrace.airflow.command import Call, VerbError, connected
from millrace.airflow.form import TASK_WITHIN, not_of_the_stack, too_early, too_much
from millrace.airflow.links import ENGINE_PAGES, ReportPage
from millrace.airflow.triggers import VerbTrigger

PAGES = "pages"
"""XCom key: the engines' pages of the jobs in the result."""
RETRYABLE = {
    "owner": "platform",
    "retries": 2,
    "retry_delay": timedelta(seconds=10),
    "execution_timeout": TASK_WITHIN,
}
"""Defaults of all tasks: verbs are idempotent, so a retry after a crash completes what is missing."""
TAPES = "tapes"
"""Key of an asset's state: the newest verdict on each tape."""
TAPES_MOST = 20


class Verb(BaseOperator):
    """Calls the command line with these words and returns its result.

    A word that renders to an empty string is left out, so an option is one word with its value:
    `--reason={{ params.reason }}`. `when` is a template: the task is skipped if it renders to False.
    """

    template_fields = ("words", "when")
    operator_extra_links = ENGINE_PAGES
    ui_color = "#e8f2ff"

    def __init__(self, *, words: Sequence[str], when: str = "True", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.words = words
        self.when = when
        self.pages: dict[str, str] = {}
        self._call: Call | None = None

    def execute(self, context: Context) -> Any:
        self.skip_unless_wanted()
        return self.result(context, self.call(self.words))

    def on_kill(self) -> None:
        if self._call:
            self._call.stop()

    def is_wanted(self) -> bool:
        return str(self.when) == "True"

    def skip_unless_wanted(self) -> None:
        if not self.is_wanted():
            raise AirflowSkipException("this task is not selected in the form of the run")

    def call(self, words: Sequence[str]) -> Any:
        """The result of the command line."""
        filled_in = filled(words)
        self.log.info("millrace %s", " ".join(filled_in))
        self._call = connected().start(filled_in)
        try:
            return self._call.finish(self.log.info)
        finally:
            self._call.stop()

    def result(self, context: Context, answer: Any) -> Any:
        """The part of the result that the task returns; keeps the pages of the jobs in it, or in an earlier result."""
        jobs = answer.get("jobs", {}) if isinstance(answer, Mapping) else {}
        self.pages = {engine: found["job"]["web"] for engine, found in jobs.items() if found["job"]["web"]}
        if self.pages:
            context["ti"].xcom_push(PAGES, self.pages)
        else:
            self.pages = context["ti"].xcom_pull(task_ids=AwaitVerb.PAGED_BY, key=PAGES) or {}
        return answer


def filled(words: Sequence[str]) -> list[str]:
    """The words that are not empty; a form field that is not set renders to an empty one."""
    return [word for word in words if word]


class AwaitVerb(Verb):
    """Calls a verb that waits for something, in the triggerer: it occupies no worker slot."""

    PAGED_BY = "await_healthy"

    def execute(self, context: Context) -> Any:
        self.skip_unless_wanted()
        self.defer(trigger=VerbTrigger(filled(self.words)), method_name="resume")

    def resume(self, context: Context, event: Mapping[str, Any]) -> Any:
        if "problem" in event:
            raise VerbError(event["problem"])
        return self.result(context, event["answer"])

    def result(self, context: Context, answer: Any) -> dict[str, Any]:
        super().result(context, answer)
        return {engine: {"id": found["id"], "state": found["job"]["state"]} for engine, found in answer["jobs"].items()}


class Changes(Verb):
    """Calls a verb that changes something, or with `--plan` would; logs all that it compared, returns the changes."""

    def result(self, context: Context, answer: Any) -> list[dict[str, str]]:
        super().result(context, answer)
        for change in answer["changes"]:
            self.log.info("%(kind)s %(name)s: %(action)s %(detail)s", change)
        return [change for change in answer["changes"] if change["action"] != "keep"]


class Declared(Changes):
    """Green if all topics, contracts, folders and tables are as declared: a plan has no changes."""

    def result(self, context: Context, answer: Any) -> list[dict[str, str]]:
        if differing := super().result(context, answer):
            named = "; ".join("{kind} {name} ({action} {detail})".format(**change) for change in differing)
            raise AirflowFailException(
                f"not as declared: {named}; `millrace provision {answer['pattern']}` corrects it"
            )
        return differing


class Fault(Verb):
    """Kills a server after a third of the traffic, and starts it again."""

    def __init__(self, *, server: str, **kwargs: Any) -> None:
        super().__init__(words=(), **kwargs)
        self.server = server

    template_fields = (*Verb.template_fields, "server")

    def execute(self, context: Context) -> None:
        params = context["params"]
        a_third = timedelta(seconds=params["events"] / params["rate_per_s"] / 3)
        self.defer(trigger=TimeDeltaTrigger(a_third), method_name="strike")

    def strike(self, context: Context, event: Any) -> None:
        try:
            self.call(["kill", self.server, "--stay-dead"])
        except VerbError as error:
            if "does not run" not in str(error):  # an earlier try has killed it
                raise
            self.log.info("%s; it is started again", error)
        self.call(["restart", self.server])


class Validate(Verb):
    """Validates the pattern: a summary goes to XCom and to the asset, by tape; the report has the details."""

    template_fields = (*Verb.template_fields, "tape")
    operator_extra_links = (*Verb.operator_extra_links, ReportPage())

    def __init__(self, *, verdict: Asset | None = None, tape: str = "", **kwargs: Any) -> None:
        super().__init__(outlets=[verdict] if verdict else [], **kwargs)
        self.verdict = verdict
        self.tape = tape

    def result(self, context: Context, answer: Any) -> dict[str, Any]:
        super().result(context, answer)
        summary = small(answer) | {"run_id": context["run_id"], "tape": self.tape}
        for check in answer["checks"]:
            self.log.info("%s: %s %s", check["name"], check["status"], check.get("why", ""))
        context["ti"].xcom_push(Report.FILE, answer["report"])
        # Before the task fails: Airflow keeps what a failed task has pushed.
        context["ti"].xcom_push("verdict", summary)
        if self.verdict and self.tape:  # without traffic there is no tape on which patterns can be compared
            remembered = context["asset_state_store"][self.verdict]
            tapes = remembered.get(TAPES) or {}
            # Removed first, so that the newest is last.
            tapes = {tape: older for tape, older in tapes.items() if tape != self.tape} | {self.tape: summary}
            remembered.set(TAPES, dict(list(tapes.items())[-TAPES_MOST:]))
        if answer["verdict"] != "ok":
            not_ok = [f"{check['name']} {check['status']}" for check in answer["checks"] if check["status"] != "ok"]
            raise AirflowFailException(f"the verdict is {answer['verdict']}: {', '.join(not_ok)}; see the Report tab")
        if self.verdict:
            context["outlet_events"][self.verdict].extra = summary
        return summary


class RollBack(Verb):
    """Undoes this run's upgrade if its verdict is failed, or if it has none, as after an upgrade that failed midway.

    The verb undoes nothing where the upgrade was refused: the last upgrade on record is then another one.

    An upgrade whose verdict is unknown stays: no check has found a fault, and what could not be judged, such as windows
    that were open during the change or messages that were judged by earlier limits, is not judged after a roll-back
    either.
    """

    def execute(self, context: Context) -> Any:
        found = context["ti"].xcom_pull(task_ids="validate", key="verdict") or {}
        if found.get("verdict") == "ok":
            raise AirflowSkipException("the verdict is ok: the upgrade stays")
        if found.get("verdict") == "unknown":
            whys = "; ".join(f"{check}: {why}" for check, why in found["unknown"].items())
            kept = (
                "the verdict is unknown and no check has failed: the upgrade stays; "
                f"`millrace roll-back {found['pattern']}` undoes it. {whys}"
            )
            self.log.warning("%s", kept)
            raise AirflowSkipException(kept)
        return super().execute(context)


class Reconcile(Verb):
    """Restarts dead jobs; returns the `await` calls for them, and passes extra and sick jobs to `NothingExtra`."""

    EXTRA, SICK = "extra", "sick"

    def result(self, context: Context, answer: Any) -> list[list[str]]:
        super().result(context, answer)
        context["ti"].xcom_push(self.EXTRA, answer["extra"])
        context["ti"].xcom_push(
            self.SICK, {name: f"{job['state']}: {job['problem']}" for name, job in answer["sick"].items()}
        )
        started = {change["name"].partition("/")[0] for change in answer["changes"] if change["action"] != "keep"}
        return [["await", pattern] for pattern in sorted(started)]


class NothingExtra(BaseOperator):
    """Fails if a job was never deployed, runs twice or is sick: these need a person."""

    def execute(self, context: Context) -> None:
        extra = context["ti"].xcom_pull(task_ids="reconcile", key=Reconcile.EXTRA) or []
        if extra:
            named = "; ".join(f"{job['name']}, id {job['job_id']}, {job['where']}" for job in extra)
            raise AirflowFailException(f"runs, but was never deployed: {named}; cancel it there, or deploy its pattern")
        sick = context["ti"].xcom_pull(task_ids="reconcile", key=Reconcile.SICK) or {}
        if sick:
            raise AirflowFailException("; ".join(f"{name} is {what}" for name, what in sick.items()))


class OnOneTape(BaseOperator):
    """Finds tapes on which several patterns have an `ok`; returns a `compare` call of all of them for each tape."""

    def __init__(self, *, verdicts: Sequence[Asset], **kwargs: Any) -> None:
        super().__init__(inlets=list(verdicts), **kwargs)
        self.verdicts = verdicts

    def execute(self, context: Context) -> list[list[str]]:
        remembered = [context["asset_state_store"][asset].get(TAPES) or {} for asset in self.verdicts]
        new = {
            event.extra["tape"]
            for asset in self.verdicts
            for event in context["triggering_asset_events"].get(asset, ())
        }
        ok = {
            tape: [tapes[tape]["pattern"] for tapes in remembered if tapes.get(tape, {}).get("verdict") == "ok"]
            for tape in sorted(new or set().union(*remembered))
            if tape  # a verdict without traffic has none
        }
        return [["compare", *names, tape] for tape, names in ok.items() if len(names) > 1]


class Judge(Verb):
    """Judges the segments of all ledgers that have ended; fails if one of the newest is not ok."""

    def result(self, context: Context, answer: Any) -> dict[str, str]:
        super().result(context, answer)
        found = {name: each["newest"] for name, each in answer["patterns"].items()}
        broken = [f"{name}: {each}" for name, chain in answer["patterns"].items() for each in chain["breaks"]]
        red = [
            f"{name}, segment {each['number']}, {each['status']}: {'; '.join(each['causes'])}"
            for name, entries in found.items()
            for each in entries
            if each["status"] not in ("ok", "assumed")
        ]
        if red or broken:
            raise AirflowFailException("; ".join(red + broken))
        return {name: entries[-1]["status"] if entries else "empty" for name, entries in found.items()}


class Report(BaseOperator):
    """Copies the report of the run to the folder of the report tab."""

    FILE = "report_file"
    operator_extra_links = (ReportPage(),)

    def execute(self, context: Context) -> str:
        made = context["ti"].xcom_pull(task_ids="validate", key=self.FILE)
        if not made:
            raise AirflowSkipException("there is no verdict to report")
        return reports.keep(made, context["dag"].dag_id, context["run_id"])


class FormFits(Verb):
    """Fails a run before its first change if its form asks for what its tasks or its target do not allow.

    That is traffic that exceeds the time limit, a crash that could come before it or is of servers that are not the
    local stack's, or any traffic.
    """

    def execute(self, context: Context) -> Any:
        params = context["params"]
        problem = too_much(params) or too_early(params) or not_of_the_stack(params["faults"], connected().environment)
        if problem:
            raise AirflowFailException(problem)
        return self.call(self.words) if self.is_wanted() else None


class Approve(ApprovalOperator):
    """Waits for a person's approval if the form requires it; after a rejection no later task runs."""

    template_fields = (*ApprovalOperator.template_fields, "when")

    def __init__(self, *, when: str = "{{ params.approval }}", **kwargs: Any) -> None:
        super().__init__(ignore_downstream_trigger_rules=True, **kwargs)
        self.when = when

    def execute(self, context: Context) -> Any:
        if str(self.when) == "True":
            return super().execute(context)
        self.log.info("the form of this run requires no approval")
        return None


def small(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The summary of a verdict, small enough for XCom and an asset event."""
    return {
        "verdict": answer["verdict"],
        "pattern": answer["pattern"],
        "checks": {check["name"]: check["status"] for check in answer["checks"]},
        "unknown": {check["name"]: check.get("why", "") for check in answer["checks"] if check["status"] == "unknown"},
        "promises": {promise["name"]: promise["status"] for promise in answer.get("promises", ())},
    }
