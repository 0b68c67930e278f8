"""The store behind ``/executions``: prompts of HTTP runs, and the answers to them.

As in NAT, a streamed execution stays ``running`` after its prompts, even when its stream has ended,
and one whose client left at a prompt still takes an answer.
"""

from __future__ import annotations

import asyncio
from typing import Any

from mockagent.ids import new_id

_KEPT = 100_000
"""NAT keeps executions for ever; we forget the oldest beyond this many."""


class Unknown(LookupError):
    """No such execution or interaction (404); the text is NAT's."""


class Resolved(ValueError):
    """The interaction is over (400); the text is NAT's."""


class Execution:
    """One run that has asked its human something."""

    __slots__ = ("future", "id", "interaction", "prompt")

    def __init__(self) -> None:
        self.id = new_id()
        self.interaction: str | None = None
        self.prompt: dict[str, Any] = {}
        self.future: asyncio.Future[str] | None = None

    @property
    def response_url(self) -> str:
        """Where the answer to the pending prompt goes."""
        return f"/executions/{self.id}/interactions/{self.interaction}/response"

    def pending(self) -> dict[str, Any]:
        """The pending prompt as frames and statuses show it."""
        return {
            "execution_id": self.id,
            "interaction_id": self.interaction,
            "prompt": self.prompt,
            "response_url": self.response_url,
        }


class Executions:
    """All executions of the process."""

    def __init__(self) -> None:
        self._known: dict[str, Execution] = {}

    def ask(self, execution: Execution, prompt: dict[str, Any]) -> asyncio.Future[str]:
        """Open a prompt in ``execution``; the future gets the human's value."""
        if execution.id not in self._known:
            if len(self._known) >= _KEPT:
                self._known.pop(next(iter(self._known)))
            self._known[execution.id] = execution
        execution.interaction = new_id()
        execution.prompt = prompt
        execution.future = asyncio.get_running_loop().create_future()
        return execution.future

    def status(self, id_: str) -> dict[str, Any]:
        """The status of an execution.

        Raises:
            Unknown: there is no such execution.
        """
        execution = self._known.get(id_)
        if execution is None:
            raise Unknown(f"Execution {id_} not found")
        if execution.interaction is None:
            return {"execution_id": id_, "status": "running"}
        pending = execution.pending()
        del pending["execution_id"]
        return {"execution_id": id_, "status": "interaction_required"} | pending

    def answer(self, id_: str, interaction: str, value: str) -> None:
        """Answer the pending prompt of an execution.

        Raises:
            Unknown: there is no such execution, or that prompt is not pending in it.
            Resolved: the prompt timed out.
        """
        execution = self._known.get(id_)
        if execution is None:
            raise Unknown(f"'Execution {id_} not found'")
        if execution.interaction != interaction or execution.future is None:
            raise Unknown(f"'Interaction {interaction} not found for execution {id_}'")
        if execution.future.done():
            raise Resolved(f"Interaction {interaction} has already been resolved")
        execution.future.set_result(value)
        execution.interaction = None
