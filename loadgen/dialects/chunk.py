"""Chat completion chunks in OpenAI's shape: what a delta shows the analyst.

Content is answer.  Reasoning (``reasoning`` or ``reasoning_content``) and tool arguments are
progress.  A role, empty or null content, a finish reason, usage and a tool call that has no
arguments yet are neither: counted as first tokens they make a service look faster than it is.
Only the first choice is read; one is all that we ask for.
"""

from __future__ import annotations

from typing import Any

from loadgen.dialects.refusal import brief, shown
from loadgen.events import Answer, Event, Notice, Progress


class Chunks:
    """The chunks of one answer."""

    __slots__ = ("_tool", "answered")

    def __init__(self) -> None:
        self.answered = False
        """Whether any answer text has come."""
        self._tool = ""

    def events(self, chunk: dict[str, Any]) -> tuple[Event, ...]:
        """What ``chunk`` means; at least one event."""
        choices = chunk.get("choices")
        if type(choices) is list and choices and type(choices[0]) is dict:
            delta = choices[0].get("delta")
            if type(delta) is dict and (events := self._delta(delta)):
                return events
            if reason := choices[0].get("finish_reason"):
                text = brief(reason) if type(reason) is str else shown(reason)
                return (Notice("finish", text), *_usage(chunk))
        if usage := _usage(chunk):
            return usage
        return (Notice("unknown", "data") if choices is None else Notice("empty delta"),)

    def _delta(self, delta: dict[str, Any]) -> tuple[Event, ...]:
        content = delta.get("content")
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        calls = delta.get("tool_calls")
        events: tuple[Event, ...] = ()
        if content:
            if type(content) is str:
                self.answered = True
                events = (Answer(content),)
            else:
                events = (Notice("undecodable", f"content {shown(content)}"),)
        if calls:
            events = (self._tool_call(calls), *events)
        if thought and type(thought) is str:
            events = (Progress("reasoning"), *events)
        return events

    def _tool_call(self, calls: Any) -> Event:
        """Arguments are work; the name that comes before them is kept to label it."""
        arguments = None
        for call in calls if type(calls) is list else ():
            function = call.get("function") if type(call) is dict else None
            if type(function) is dict:
                name = function.get("name")
                self._tool = name if name and type(name) is str else self._tool
                arguments = arguments or function.get("arguments")
        return Progress("tool_call", self._tool) if arguments else Notice("empty tool call")


def _usage(chunk: dict[str, Any]) -> tuple[Notice, ...]:
    """How many tokens the answer has, as the server counts them; without a number if it does not
    say how many of them are the answer's.
    """
    usage = chunk.get("usage")
    if not usage:
        return ()
    number = usage.get("completion_tokens") if type(usage) is dict else None
    return (Notice("usage", str(number) if type(number) is int and number > 0 else ""),)
