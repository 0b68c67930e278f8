"""A client that shares nothing with our product: what comes over the wire, and when.

It is the reference for the shapes of frames and for the times that a plain program would measure.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from counterparts import Server
from websockets.sync.client import ClientConnection, connect

from loadgen.clock import NS_PER_MS, now_ns

_TIMEOUT_S = 60
_SYNTHETIC = ("Function Start: <workflow>", "Function Complete: <workflow>")


@dataclass(frozen=True, slots=True)
class Seen:
    """One frame: when it came, in ms since the question; the name of its kind; its JSON."""

    at_ms: float
    kind: str
    content: dict[str, Any]


def ask_sse(server: Server, question: str) -> list[Seen]:
    """All frames of a turn on ``/v1/chat/stream``; prompts are replied to at once."""
    begin = now_ns()
    request = {"messages": [{"role": "user", "content": question}], "stream": True}
    connection = _connection(server)
    try:
        connection.request("POST", "/v1/chat/stream", *_body(request))
        answer = connection.getresponse()
        seen = []
        for kind, data in _events(answer):
            frame = Seen((now_ns() - begin) / NS_PER_MS, kind, json.loads(data))
            seen.append(frame)
            if kind == "interaction_required":
                url, prompt = frame.content["response_url"], frame.content["prompt"]
                post(server, url, {"response": reply_to(prompt)})
        ended = (now_ns() - begin) / NS_PER_MS
        return [*seen, Seen(ended, "end", {})]
    finally:
        connection.close()


def ask_ws(server: Server, question: str, api_key: str | None = None) -> list[Seen]:
    """All messages of a turn on ``/websocket``; prompts are replied to at once."""
    begin = now_ns()
    seen: list[Seen] = []
    with connect_ws(server) as socket:
        if api_key is not None:
            payload = {"method": "api_key", "token": api_key}
            socket.send(json.dumps({"type": "auth_message", "payload": payload}))
        else:
            socket.send(json.dumps(user_message(question, uuid4().hex)))
        while not seen or seen[-1].content.get("status") != "complete":
            content = json.loads(socket.recv(_TIMEOUT_S))
            kind = content["type"]
            seen.append(Seen((now_ns() - begin) / NS_PER_MS, kind, content))
            if kind == "auth_response_message":
                socket.send(json.dumps(user_message(question, uuid4().hex)))
            elif kind == "system_interaction_message":
                prompt = content["content"]
                if prompt["input_type"] != "notification":
                    socket.send(json.dumps(_interaction(prompt, content["id"])))
    return seen


def connect_ws(server: Server) -> ClientConnection:
    """An open socket that takes messages of any size."""
    return connect(server.websocket, max_size=None, proxy=None)


@dataclass(frozen=True, slots=True)
class AtPrompt:
    """A turn on ``/v1/chat/stream`` that stands at its first prompt; ``frame`` is the prompt's."""

    server: Server
    connection: http.client.HTTPConnection
    answer: http.client.HTTPResponse
    frame: dict[str, Any]

    def reply(self, body: Any) -> tuple[int, str]:
        """Status and body of a reply."""
        return post(self.server, self.frame["response_url"], body)

    def rest(self) -> str:
        """The answer text that still comes."""
        return "".join(
            json.loads(data)["choices"][0]["delta"]["content"]
            for kind, data in _events(self.answer)
            if kind == "data"
        )

    def leave(self) -> None:
        """Close the stream."""
        self.answer.close()
        self.connection.close()


@contextmanager
def at_prompt(server: Server, question: str) -> Iterator[AtPrompt]:
    """A turn that is led to its first prompt, and left at the end."""
    connection = _connection(server)
    request = {"messages": [{"role": "user", "content": question}], "stream": True}
    connection.request("POST", "/v1/chat/stream", *_body(request))
    answer = connection.getresponse()
    shown = next(data for kind, data in _events(answer) if kind == "interaction_required")
    turn = AtPrompt(server, connection, answer, json.loads(shown))
    try:
        yield turn
    finally:
        turn.leave()


def post(server: Server, path: str, body: Any) -> tuple[int, str]:
    """Status and body of a POST on a connection of its own."""
    connection = _connection(server)
    try:
        connection.request("POST", path, *_body(body))
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def head(server: Server, method: str, path: str, body: Any) -> tuple[int, list[tuple[str, str]]]:
    """Status and sorted headers of the answer to a request, but for the date."""
    connection = _connection(server)
    try:
        connection.request(method, path, *(_body(body) if body is not None else ()))
        answer = connection.getresponse()
        headers = answer.getheaders()
        answer.read()
        return answer.status, sorted(header for header in headers if header[0].lower() != "date")
    finally:
        connection.close()


def user_message(question: str, turn: str) -> dict[str, Any]:
    """A question as it goes over a socket."""
    said = {"role": "user", "content": [{"type": "text", "text": question}]}
    return {
        "type": "user_message",
        "schema_type": "chat_stream",
        "id": turn,
        "conversation_id": uuid4().hex,
        "content": {"messages": [said]},
    }


def reply_to(prompt: Mapping[str, Any]) -> dict[str, Any]:
    """What an HTTP client replies: 2024, or the second of the options."""
    kind = prompt["input_type"]
    if kind == "text":
        return {"type": kind, "text": "2024"}
    return {"type": kind, "selected_option": prompt["options"][1]}


def milestones(seen: list[Seen]) -> dict[str, float]:
    """``ttfp``, ``ttfa`` and ``ttc`` in ms of a turn without prompts."""
    found: dict[str, float] = {}
    for frame in seen:
        step = frame.content.get("content") or frame.content
        name = step.get("name") if isinstance(step, dict) else None
        if name is not None and name not in _SYNTHETIC:
            found.setdefault("ttfp", frame.at_ms)
        if frame.kind == "data" or (
            frame.kind == "system_response_message" and frame.content["content"]["text"]
        ):
            found.setdefault("ttfa", frame.at_ms)
    found["ttc"] = seen[-1].at_ms
    return found


def _events(answer: http.client.HTTPResponse) -> Iterator[tuple[str, str]]:
    """(event type or field name, data) as the toolkit writes them: a frame has one line of data."""
    kind = ""
    while line := answer.readline():
        field, _, value = line.decode().rstrip("\n").partition(":")
        if field == "event":
            kind = value.strip()
        elif field:
            yield kind or field, value.strip()
            kind = ""


def _connection(server: Server) -> http.client.HTTPConnection:
    place = urlsplit(server.origin)
    assert place.hostname
    return http.client.HTTPConnection(place.hostname, place.port, timeout=_TIMEOUT_S)


def _body(content: Any) -> tuple[str, dict[str, str]]:
    return json.dumps(content), {"content-type": "application/json"}


def _interaction(prompt: Mapping[str, Any], parent: str) -> dict[str, Any]:
    value = prompt["options"][1]["value"] if "options" in prompt else "2024"
    said = {"role": "user", "content": [{"type": "text", "text": value}]}
    return {
        "type": "user_interaction_message",
        "id": "reply",
        "thread_id": "default",
        "parent_id": parent,
        "conversation_id": "c",
        "content": {"messages": [said]},
    }
