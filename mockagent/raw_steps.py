"""Events as ``/full`` shows them: NAT's own IntermediateStep payloads, with no adaptor between."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loadgen.clock import NS_PER_S, wall_ns
from mockagent.frames import json_text
from mockagent.ids import new_id
from mockagent.payloads import WORKFLOW, value_of
from mockagent.workflow import Event, Kind, Step

_EVERY_METADATA = (
    "chat_responses", "chat_inputs", "tool_inputs", "tool_outputs", "tool_info", "span_inputs",
    "span_outputs",
)  # fmt: skip
_ENDS = (Kind.WORKFLOW_END, Kind.FUNCTION_END, Kind.TOOL_END, Kind.LLM_END, Kind.CUSTOM_END)


class RawSteps:
    """The raw steps of one run; ``wanted`` None is all types."""

    def __init__(self, conversation: str | None, filter_steps: str | None) -> None:
        self._wanted = _wanted(filter_steps)
        self._run = {
            "workflow_run_id": new_id(),
            "workflow_trace_id": new_id().replace("-", ""),
            "conversation_id": conversation,
            "display_name": WORKFLOW,
        }

    def step(self, event: Event) -> Step | None:
        """The content of an event's frame; None if it is filtered out."""
        if self._wanted is not None and event.kind not in self._wanted:
            return None
        payload = {
            "event_type": event.kind,
            "event_timestamp": wall_ns() / NS_PER_S,
            "span_event_timestamp": None,
            "framework": None,
            "name": event.name,
            "tags": None,
            "metadata": self._metadata(event),
            "data": _data(event),
            "usage_info": None,
            "UUID": event.id,
        }
        return Step(event.id, event.parent, event.name, json_text(payload))

    def _metadata(self, event: Event) -> Mapping[str, Any] | None:
        if event.kind not in (Kind.WORKFLOW_START, Kind.WORKFLOW_END):
            return None
        nothing = dict.fromkeys(_EVERY_METADATA)
        return nothing | {"provided_metadata": self._run, "tools_schema": []}


def _wanted(filter_steps: str | None) -> frozenset[str] | None:
    """``filter_steps`` as NAT reads it: exact names between commas, ``none`` for nothing."""
    if not filter_steps:
        return None
    return frozenset(() if filter_steps.lower() == "none" else filter_steps.split(","))


def _data(event: Event) -> dict[str, Any]:
    asked = None if event.kind is Kind.WORKFLOW_END else value_of(event.asked)
    said = value_of(event.said) if event.kind in _ENDS else None
    return {"input": asked, "output": said, "chunk": event.chunk or None, "payload": None}
