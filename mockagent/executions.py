"""The store behind ``/executions``: what runs over HTTP want of their human, and how they ended.

As in NAT, a streamed execution stays ``running`` after its prompts, even when its stream has ended;
one whose client left at a prompt still takes an answer; nothing is ever cleaned up by age.
"""

from __future__ import annotations

import asyncio
from typing import Any

from mockagent.consents import Flow
from mockagent.ids import new_id


class Unknown(LookupError):
    """No such execution or interaction (404); the text is NAT's."""


class Resolved(ValueError):
    """The interaction is over (400); the text is NAT's."""


class Execution:
    """One run over HTTP.  ``told`` is set as soon as there is anything to tell: a prompt, a URL,
    the end.  ``cut``: its connection is to be cut instead.
    """

    __slots__ = ("cut", "error", "flow", "future", "id", "interaction", "prompt", "result", "told")

    def __init__(self) -> None:
        self.id = new_id()
        self.interaction: str | None = None
        self.prompt: dict[str, Any] = {}
        self.future: asyncio.Future[str] | None = None
        self.flow: Flow | None = None
        self.result: Any = None
        self.error: str | None = None
        self.cut = False
        self.told = asyncio.Event()

    @property
    def response_url(self) -> str:
        """Where the answer to the pending prompt goes."""
        return f"/executions/{self.id}/interactions/{self.interaction}/response"

    def completed(self, result: Any) -> None:
        """The run is over, with ``result`` as its route answers it."""
        self.result = result
        self.told.set()

    def failed(self, error: str) -> None:
        """The run is over, by an exception with that text."""
        self.error = error
        self.told.set()

    def status(self) -> dict[str, Any]:
        """Its status without its id: the last fields of every answer about it."""
        if self.result is not None:
            return {"status": "completed", "result": self.result}
        if self.error is not None:
            return {"status": "failed", "error": self.error}
        if self.interaction is not None:
            return {"status": "interaction_required"} | self.pending()
        if self.flow is not None:
            return {"status": "oauth_required"} | self.allowing()
        return {"status": "running"}

    def pending(self) -> dict[str, Any]:
        """The pending prompt."""
        return {
            "interaction_id": self.interaction,
            "prompt": self.prompt,
            "response_url": self.response_url,
        }

    def allowing(self) -> dict[str, Any]:
        """The pending consent."""
        assert self.flow is not None
        return {"auth_url": self.flow.url, "oauth_state": self.flow.state}


class Executions:
    """The executions of the process whose id anybody knows; ``kept`` 0 is all of them."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._known: dict[str, Execution] = {}

    def ask(self, execution: Execution, prompt: dict[str, Any]) -> asyncio.Future[str]:
        """Open a prompt in ``execution``; the future gets the human's value."""
        self._remember(execution)
        execution.interaction = new_id()
        execution.prompt = prompt
        execution.future = asyncio.get_running_loop().create_future()
        execution.told.set()
        return execution.future

    def consent(self, execution: Execution, flow: Flow) -> None:
        """Send the user of ``execution`` to a URL."""
        self._remember(execution)
        execution.flow = flow
        execution.told.set()

    def status(self, id_: str) -> dict[str, Any]:
        """The status of an execution.

        Raises:
            Unknown: there is no such execution.
        """
        execution = self._known.get(id_)
        if execution is None:
            raise Unknown(f"Execution {id_} not found")
        return {"execution_id": id_} | execution.status()

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

    def _remember(self, execution: Execution) -> None:
        if execution.id not in self._known:
            if self._kept and len(self._known) >= self._kept:
                self._known.pop(next(iter(self._known)))
            self._known[execution.id] = execution
