"""A bare client of Progress Agentic RAG's session socket, for tests of the mock."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from time import sleep
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.conftest import MockAgent

Frame = dict[str, Any]
Replier = Callable[[Frame], str | None]
NAMES = count(1)
SILENCE_S = 0.3
_LONGEST_S = 5.0
_OPERATIONS = ["answer", "quit", "start", "done", "error", "ask", "chunk", "reasoning"]


def open_socket(
    agent: MockAgent, session: str = "ephemeral", query: str = "", workflow: str | None = None
) -> ClientConnection:
    """A socket of ``session``; ``workflow`` in the path."""
    inner = f"/workflow/{workflow}" if workflow else ""
    path = f"/api/v1/agent/agent-0001{inner}/session/{session}/ws{query}"
    return connect(f"ws://{agent.host}:{agent.port}{path}", compression=None, max_size=4 << 20)


@dataclass
class Heard:
    """What a client heard: frames, then the end.

    ``end`` is a close code, 1006 without a close frame, or None: silence, the socket is open.
    """

    frames: list[Frame] = field(default_factory=list)
    end: int | None = None

    @property
    def shape(self) -> str:
        """What each frame is, in a word; repeated ones once."""
        words: list[str] = []
        for frame in self.frames:
            word = kind_of(frame)
            if not words or words[-1] != word:
                words.append(word)
        return " ".join(words)

    @property
    def chunks(self) -> list[str]:
        parts = [frame["streaming_response_chunk"] for frame in self.frames]
        return [part["text"] for part in parts if part and not part["last"]]

    @property
    def answer(self) -> str | None:
        """The last answer."""
        said = [f["answer"] for f in self.frames if f["operation"] == 0 and f["answer"] is not None]
        return said[-1] if said else None

    @property
    def errors(self) -> list[str]:
        return [f["exception"]["detail"] for f in self.frames if f["exception"]]

    def parts(self, key: str) -> list[Any]:
        """All that frames carry under ``key``."""
        return [frame[key] for frame in self.frames if frame[key] is not None]


def kind_of(frame: Frame) -> str:
    """A frame in a word."""
    if frame["operation"] == 0:
        named = ("step", "context", "possible_answer")
        return next((key for key in named if frame[key] is not None), "answer")
    if frame["operation"] == 6 and frame["agent_request"] is not None:
        return "source"
    return _OPERATIONS[frame["operation"]]


def ask(client: ClientConnection, question: str, **more: Any) -> None:
    """Send a question; chunks are asked for."""
    client.send(json.dumps({"question": question, "operation": 0, "streaming": True} | more))


def reply(client: ClientConnection, text: str) -> None:
    """Answer the agent."""
    client.send(json.dumps({"request_id": "whatever", "response": text}))


def listen(
    client: ClientConnection,
    replier: Replier | None = None,
    until: str | None = None,
    silence_s: float = _LONGEST_S,
) -> Heard:
    """Read to the end, to a frame that is ``until``, or to silence.

    ``replier`` says what is replied to a request; None is nothing.
    """
    heard = Heard()
    while True:
        try:
            frame = json.loads(client.recv(timeout=silence_s))
        except TimeoutError:
            return heard
        except ConnectionClosed as closed:
            heard.end = closed.rcvd.code if closed.rcvd else 1006
            return heard
        heard.frames.append(frame)
        text = replier(frame) if replier and frame["feedback"] else None
        if text is not None:
            reply(client, text)
        if until == kind_of(frame):
            return heard


def converse(
    agent: MockAgent,
    question: str,
    replier: Replier | None = None,
    silence_s: float = _LONGEST_S,
    **more: Any,
) -> Heard:
    """One question on a socket of its own, heard to its end."""
    with open_socket(agent) as client:
        ask(client, question, **more)
        return listen(client, replier, silence_s=silence_s)


def tagged(agent: MockAgent, tag: str) -> Frame:
    """The truth of the ended turn with ``tag``."""
    for _ in range(200):
        found = [turn for turn in agent.truth() if turn["tag"] == tag]
        if found:
            return dict(found[-1])
        sleep(0.02)
    raise AssertionError(f"no turn with tag {tag} ended")
