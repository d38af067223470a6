"""Loss: messages that were deleted before an engine read them; no later output can be judged."""

from __future__ import annotations

from millrace.verify.case import Case
from millrace.verify.checking import Checker, Undecided


def loss(case: Case) -> Undecided:
    """The accepted gaps, by place."""
    lost = tuple(f"{loss.offsets} of {loss}" for loss in case.question.lost)
    # Two queries may have lost the same messages.
    gone = {(loss.topic, loss.topic_id, loss.partition): 0 for loss in case.question.lost}
    for loss in case.question.lost:
        place = loss.topic, loss.topic_id, loss.partition
        gone[place] = max(gone[place], loss.messages or 0)
    return Undecided(
        "accepted with `millrace deploy --accept-loss`; what the jobs remember may lack these messages",
        {"gaps": len(lost), "messages at least": sum(gone.values()), "offenders": len(lost)},
        lost,
        is_settled=True,
    )


CHECKER = Checker("loss", "Was every message read before it was deleted?", loss, needs_inputs=False)
