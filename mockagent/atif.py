"""Events as ``/v1/workflow/atif`` shows them: steps of the Agent Trajectory Interchange Format.

A model's end opens a turn of the agent that collects the tools behind it; the next model's end, or
that of the workflow, sends it.  Source: ``nat.utils.atif_converter``, nvidia-nat-core 1.9.0.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from loadgen.clock import NS_PER_S, wall_ns
from mockagent.payloads import WORKFLOW, text_of, value_of
from mockagent.workflow import Event, Kind

_ROOT = {"function_id": "root", "function_name": "root"}
_DONE = {"status": "completed"}


class AtifSteps:
    """The ATIF steps of one run."""

    def __init__(self) -> None:
        self.finished = False
        """Whether the workflow has ended well."""
        self._number = 0
        self._turn: dict[str, Any] | None = None
        self._calls: list[dict[str, Any]] = []

    def step(self, event: Event) -> dict[str, Any] | None:
        """The step that an event completes, if it does."""
        kind = event.kind
        if kind is Kind.WORKFLOW_START:
            return self._made("user", _question(event), extra={"ancestry": _ROOT} | _invoked())
        if kind is Kind.WORKFLOW_END:
            self.finished = True
            waiting = self.rest()
            extra = {"ancestry": _ROOT} | _invoked()
            last = self._made("agent", text_of(event.said), extra=extra)
            return waiting or last
        if kind is Kind.LLM_END:
            waiting = self.rest()
            self._turn = self._made("agent", text_of(event.said), model_name=event.name)
            self._turn["extra"] = {"ancestry": _ancestry(event)} | _invoked()
            return waiting
        if kind in (Kind.TOOL_END, Kind.FUNCTION_END) and event.name != WORKFLOW:
            return self._called(event)
        return None

    def rest(self) -> dict[str, Any] | None:
        """The turn of the agent that is still open."""
        turn, self._turn = self._turn, None
        calls, self._calls = self._calls, []
        if turn is None:
            return None
        return _ordered(turn, calls)

    def _called(self, event: Event) -> dict[str, Any] | None:
        id_ = f"call_{event.id}"
        asked = value_of(event.asked)
        arguments = asked if isinstance(asked, dict) else {"input": asked}
        call = {
            "call": {
                "tool_call_id": id_,
                "function_name": event.name,
                "arguments": arguments,
                "extra": None,
            },
            "result": {"source_call_id": id_, "content": text_of(event.said)},
            "invocation": {"invocation_id": id_} | _DONE,
            "ancestry": _ancestry(event),
        }
        if self._turn is not None:
            self._calls.append(call)
            return None
        alone = self._made("agent", "", extra={"ancestry": _ancestry(event)} | _invoked())
        return _ordered(alone, [call])

    def _made(self, source: str, message: str, **more: Any) -> dict[str, Any]:
        self._number += 1
        now = datetime.fromtimestamp(wall_ns() / NS_PER_S, UTC).isoformat()
        step = {"step_id": self._number, "source": source, "message": message, "timestamp": now}
        return step | more


def _ordered(turn: dict[str, Any], calls: list[dict[str, Any]]) -> dict[str, Any]:
    """``turn`` with its tools, keys in NAT's order."""
    extra = turn.pop("extra")
    if calls:
        turn["tool_calls"] = [call["call"] for call in calls]
        turn["observation"] = {"results": [call["result"] for call in calls]}
        extra["tool_invocations"] = [call["invocation"] for call in calls]
    extra["tool_ancestry"] = [call["ancestry"] for call in calls]
    return turn | {"extra": extra}


def _question(event: Event) -> str:
    given = value_of(event.asked)
    if not isinstance(given, dict):
        return str(given)
    if given.get("input_message"):
        return str(given["input_message"])
    said = [m.get("content", "") for m in given.get("messages") or () if m.get("role") == "user"]
    return str(said[-1]) if said and said[-1] else text_of(event.asked)


def _ancestry(event: Event) -> dict[str, str]:
    if event.kind is Kind.FUNCTION_END:
        return {
            "function_id": event.id,
            "function_name": event.name,
            "parent_id": event.parent,
            "parent_name": WORKFLOW,
        }
    return {
        "function_id": event.parent,
        "function_name": WORKFLOW,
        "parent_id": "root",
        "parent_name": "root",
    }


def _invoked() -> dict[str, Any]:
    return {"invocation": dict(_DONE)}
