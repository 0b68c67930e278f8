"""AragAnswer frames: every message of the server, as compact JSON with all its keys.

Source: ``hyperforge.interaction`` and ``hyperforge.models``, 1.0.0.post437: order of keys as there.
The documented edition leaves out what the documentation does not know.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import orjson

from mockagent.edition import Edition
from mockagent.ids import new_hex

KEYS = (
    "exception", "answer", "answer_citations", "answer_urls", "agent_request", "generated_text",
    "step", "possible_answer", "context", "operation", "seqid", "original_question_uuid",
    "actual_question_uuid", "feedback", "oauth", "data_visualizations",
    "streaming_response_chunk", "reasoning",
)  # fmt: skip
_NOT_DOCUMENTED = {
    "": {"answer_urls"},
    "exception": {"extra"},
    "step": {"metadata", "external_usage"},
    "context": {"prompts", "json_objects", "citations_id", "image_urls"},
    "possible_answer": {
        "data_visualizations", "citations", "chunks", "structured", "images", "image_urls",
    },
}  # fmt: skip
"""Keys of frames and of their parts that only the server has."""
BLOCK = "block-AA"
_SOURCE = "https://example.com/france"


class Operation(IntEnum):
    """What a frame is; QUIT is in the documentation only."""

    ANSWER = 0
    QUIT = 1
    START = 2
    DONE = 3
    ERROR = 4
    AGENT_REQUEST = 5
    ANSWER_CHUNK = 6
    REASONING = 7


class AragFrames:
    """The frames of one turn; ``numbered``: they carry a ``seqid``, as no published server does."""

    def __init__(self, edition: Edition, numbered: bool = False) -> None:
        self.uuid = new_hex()
        """The question's id."""
        self._documented = edition.documented
        self._numbered = numbered
        self._number = 0
        keys = [key for key in KEYS if not (edition.documented and key in _NOT_DOCUMENTED[""])]
        self._empty: dict[str, Any] = dict.fromkeys(keys)

    def start(self) -> str:
        return self._frame(Operation.START)

    def done(self) -> str:
        return self._frame(Operation.DONE)

    def quit(self) -> str:
        return self._frame(Operation.QUIT)

    def error(
        self, detail: str, answer: str | None = None, extra: dict[str, Any] | None = None
    ) -> str:
        exception = {"detail": detail, "extra": extra}
        return self._frame(Operation.ERROR, exception=exception, answer=answer)

    def step(self, step: dict[str, Any]) -> str:
        return self._frame(Operation.ANSWER, step=step)

    def context(self, context: dict[str, Any]) -> str:
        return self._frame(Operation.ANSWER, context=context)

    def possible_answer(self, answer: dict[str, Any]) -> str:
        return self._frame(Operation.ANSWER, possible_answer=answer)

    def answer(
        self,
        text: str | None,
        citations: dict[str, Any] | None,
        visualizations: list[dict[str, Any]] | None = None,
    ) -> str:
        return self._last(
            Operation.ANSWER,
            answer=text,
            answer_citations=citations,
            data_visualizations=visualizations or None,
        )

    def failure(self, detail: str, answer: str | None) -> str:
        """The agent raised: what comes in the place of the frame with the answer."""
        exception = {"detail": detail, "extra": None}
        return self._last(Operation.ERROR, exception=exception, answer=answer)

    def source(self, agent: str) -> str:
        """Which agent the next chunks are from."""
        return self._frame(Operation.ANSWER_CHUNK, agent_request=agent)

    def chunk(self, text: str, last: bool = False) -> str:
        part = {"text": text, "last": last}
        return self._frame(Operation.ANSWER_CHUNK, streaming_response_chunk=part)

    def reasoning(self, text: str) -> str:
        return self._frame(Operation.REASONING, reasoning={"text": text, "last": False})

    def feedback(self, feedback: dict[str, Any]) -> str:
        return self._frame(Operation.AGENT_REQUEST, feedback=feedback)

    def oauth(self, url: str) -> str:
        return self._frame(Operation.AGENT_REQUEST, oauth={"oauth_url": url})

    def _last(self, operation: Operation, **parts: Any) -> str:
        """The frame before DONE: it alone has a list of URLs, which here is empty."""
        if not self._documented:
            parts["answer_urls"] = []
        return self._frame(operation, **parts)

    def _frame(self, operation: Operation, **parts: Any) -> str:
        if self._documented:
            parts = {key: _documented(key, part) for key, part in parts.items()}
        frame = self._empty | parts
        frame["operation"] = int(operation)
        if self._numbered:
            self._number += 1
            frame["seqid"] = self._number
        return orjson.dumps(frame).decode()


class AragParts:
    """What frames of one question hold: steps, contexts, answers, requests to the user."""

    def __init__(self, uuid: str, question: str) -> None:
        self._uuids = {"original_question_uuid": uuid, "actual_question_uuid": uuid}
        self._question = question

    def step(
        self, module: str, title: str, value: str, took_s: float, reason: str | None = None
    ) -> dict[str, Any]:
        """``took_s`` in seconds, as the frame has it."""
        return self._uuids | {
            "module": module,
            "title": title,
            "value": value,
            "agent_path": "/context/scripted",
            "reason": reason,
            "timeit": took_s,
            "input_nuclia_tokens": 0.1,
            "output_nuclia_tokens": 0.2,
            "error": None,
            "metadata": None,
            "external_usage": None,
        }

    def context(self, id_: str, text: str) -> dict[str, Any]:
        chunk = {
            "chunk_id": "rid-1/t/text/0-48",
            "title": "France",
            "source": "kb-1",
            "text": text,
            "labels": ["geo/europe"],
            "url": [_SOURCE],
            "metadata": None,
            "action": None,
            "origin_url": _SOURCE,
            "origin_agent": "mock",
        }
        return {"id": id_, **self._uuids} | {
            "question": self._question,
            "chunks": [chunk],
            "images": {},
            "prompts": [],
            "structured": [],
            "json_objects": [],
            "source": "kb-1",
            "agent": "mock",
            "summary": "Paris is the capital of France.",
            "agent_id": "scripted",
            "title": "France",
            "missing": None,
            "citations": [chunk["chunk_id"]],
            "citations_id": BLOCK,
            "image_urls": [],
        }

    def possible_answer(
        self,
        text: str,
        agent_path: str,
        citations: dict[str, Any] | None,
        chart: dict[str, Any] | None,
    ) -> dict[str, Any]:
        return {"answer": text, **self._uuids} | {
            "module": "summarize",
            "agent_path": agent_path,
            "data_visualizations": [chart] if chart else None,
            "citations": citations,
            "chunks": None,
            "structured": None,
            "images": None,
            "image_urls": None,
        }


def citations(context: str) -> dict[str, Any]:
    """That the answer's block comes from the context with that id."""
    cited = {"context_id": context, "origin_urls": [_SOURCE], "chunk_index": None}
    return {"metadata": {BLOCK: cited}}


def visualization() -> dict[str, Any]:
    """A chart as Vega-Lite."""
    values = [{"x": x, "y": x} for x in range(3)]
    return {
        "type": "vega_lite",
        "vega_lite_obj": {
            "mark": "bar",
            "data": {"values": values},
            "encoding": {"x": {"field": "x"}, "y": {"field": "y"}},
        },
    }


def _documented(key: str, part: Any) -> Any:
    hidden = _NOT_DOCUMENTED.get(key)
    if hidden and isinstance(part, dict):
        return {name: value for name, value in part.items() if name not in hidden}
    return part
