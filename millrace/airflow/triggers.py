"""Waiting without a worker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from airflow.sdk.exceptions import AirflowException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from millrace.airflow.command import aconnected


class VerbTrigger(BaseTrigger):
    """Fires when a verb has ended; a triggerer that takes over runs the verb again."""

    def __init__(self, words: list[str]) -> None:
        super().__init__()
        self.words = words

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__qualname__}", {"words": self.words}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        try:
            answer = await (await aconnected()).call(self.words, self.log.info)
        except AirflowException as error:
            yield TriggerEvent({"problem": str(error)})
        else:
            yield TriggerEvent({"answer": answer})
