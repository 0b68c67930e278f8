"""HTTP exchanges written down by shape: what a row of the `httpbook` makes a server say.

Requests go through h11 on sockets of their own, so that this shares no code with our product and
sees what a forgiving client hides: two headers of a name, lines without a blank one behind them, a
body that was cut.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import h11
from counterparts import Server
from shapes import frame_shape, masked
from tokens import filled

_TIMEOUT_S = 60
_POLL_S = 0.05
_NOWHERE = Path("/dev/null")
_UNSEEN = ("date", "content-length")
"""Headers that are not compared: how long a body is follows from its texts."""

_STAYS = ("interaction_required", "oauth_required", "running")


@dataclass(frozen=True)
class Reply:
    """Answer the prompt with ``body``, a JSON value or a text; None is the right answer."""

    body: Any = None


@dataclass(frozen=True)
class Ask:
    """A request of its own; ``{execution_id}`` and ``{interaction_id}`` stand for the turn's."""

    path: str
    method: str = "GET"
    body: Any = None


@dataclass(frozen=True)
class Pause:
    """Do nothing for so long."""

    seconds: float


@dataclass(frozen=True)
class Leave:
    """Close the connection."""


@dataclass(frozen=True)
class Consent:
    """Open the URL of the login, and refuse there with ``deny``; then back to the server."""

    deny: bool = False


Action = Reply | Ask | Pause | Leave | Consent


@dataclass(frozen=True)
class Row:
    """One exchange.  ``body`` is a JSON value, or the bytes that are sent as they are; ``headers``
    may name a token (`tokens.filled`).

    ``kind``: of the servers, see `conftest.KINDS`.  ``does`` is done at each prompt, ``then`` when
    the answer has ended.  ``racing``: steps and chunks overtake each other, so only the order
    inside each kind of frame is compared.  ``leaves_after``: close the connection after so many
    frames.
    """

    name: str
    path: str
    body: Any = None
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str = ""
    does: Sequence[Action] = (Reply(),)
    then: Sequence[Action] = ()
    racing: bool = False
    leaves_after: int | None = None
    leaves_after_s: float | None = None


class Answer:
    """The answer to one request, frame by frame."""

    def __init__(
        self, server: Server, method: str, path: str, body: Any, headers: Mapping[str, str]
    ):
        place = urlsplit(server.origin)
        self._socket = socket.create_connection((place.hostname, place.port), _TIMEOUT_S)
        self._brain = h11.Connection(h11.CLIENT)
        said = {name: filled(value) for name, value in headers.items()}
        sent = {"host": place.netloc} | said
        data = (
            b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        )
        if body is not None:
            sent = {"content-type": "application/json"} | sent
        sent["content-length"] = str(len(data))
        self._send(h11.Request(method=method, target=path, headers=list(sent.items())))
        self._send(h11.Data(data=data))
        self._send(h11.EndOfMessage())
        self._left = False
        head = self._next()
        assert isinstance(head, h11.Response)
        self.status = head.status_code
        self.headers = [(name.decode(), value.decode()) for name, value in head.headers]
        self.end = ""

    def frames(self) -> Iterator[str]:
        """What stands between blank lines, with the line ends behind it; the last one may have
        none.
        """
        rest = ""
        for text in self._texts():
            rest += text
            while "\n\n" in rest:
                frame, _, rest = rest.partition("\n\n")
                yield f"{frame}\n\n"
        if rest:
            yield rest

    def leave(self) -> None:
        """Close the connection."""
        self._left = True
        self._socket.close()

    def give_up_after(self, seconds: float) -> None:
        """Leave when nothing comes for so long."""
        self._socket.settimeout(seconds)

    def _texts(self) -> Iterator[str]:
        chunked = ("transfer-encoding", "chunked") in self.headers
        whole = b""
        while not self._left:
            try:
                event = self._next()
            except TimeoutError:
                self.end = "silence"
                self.leave()
                return
            except (h11.RemoteProtocolError, ConnectionError):
                self.end = "cut"
                return
            if isinstance(event, h11.EndOfMessage):
                self.end = "last chunk" if chunked else "whole"
                break
            whole += bytes(event.data)
            # A character may be cut in two.
            text = whole.decode(errors="ignore") if chunked else ""
            if chunked:
                whole = whole[len(text.encode()) :]
                yield text
        if whole:
            yield whole.decode()
        self._socket.close()

    def _send(self, event: h11.Event) -> None:
        data = self._brain.send(event)
        if data:
            self._socket.sendall(data)

    def _next(self) -> Any:
        while True:
            event = self._brain.next_event()
            if event is not h11.NEED_DATA:
                return event
            self._brain.receive_data(self._socket.recv(65536))


def play(server: Server, row: Row) -> list[str]:
    """What ``row`` makes ``server`` say, by shape."""
    lines = _Exchange(server, row).lines
    return sorted(lines, key=_kind_of) if row.racing else lines


class _Exchange:
    def __init__(self, server: Server, row: Row) -> None:
        self._server = server
        self._row = row
        self._headers = {n: v for n, v in row.headers.items() if n.lower() != "content-type"}
        self.lines: list[str] = []
        self._ids: dict[str, str] = {}
        self._gone = False
        answer = Answer(server, row.method, row.path, row.body, row.headers)
        if row.leaves_after_s is not None:
            answer.give_up_after(row.leaves_after_s)
        self._watch(answer)
        for action in row.then:
            self._act(action, {}, None)

    def _watch(self, answer: Answer) -> None:
        self._head(answer)
        frames: list[str] = []
        told: dict[str, Any] = {}
        for seen, frame in enumerate(answer.frames(), 1):
            frames.append(frame_shape(frame))
            told = _json_of(frame)
            if answer.status == 200 and ("auth_url" in told or "response_url" in told):
                self._flush(frames)
                self._do(told, answer)
            if seen == self._row.leaves_after:
                answer.leave()
        self._flush(frames)
        self.lines.append(f"end: {answer.end or 'left'}")
        if answer.status == 202:
            self._poll(told)

    def _flush(self, frames: list[str]) -> None:
        """Write down the frames between two prompts."""
        self.lines += frames
        frames.clear()

    def _do(self, told: dict[str, Any], answer: Answer | None) -> None:
        self._ids |= {name: told[name] for name in told if name.endswith("_id")}
        for action in self._row.does:
            self._act(action, told, answer)

    def _poll(self, told: dict[str, Any]) -> None:
        """Look until the run has ended; what is said again is written down once."""
        url, asked, states = told["status_url"], None, [told]
        looks: list[str] = []
        while states[-1]["status"] in _STAYS and not self._gone:
            state = states[-1]
            wish = state.get("interaction_id") or state.get("oauth_state")
            if wish and wish != asked:
                asked = wish
                self.lines += [look for look, _ in groupby(looks)]
                looks.clear()
                self._do(state, None)
            time.sleep(_POLL_S)
            answer = Answer(self._server, "GET", url, None, self._headers)
            body = "".join(answer.frames())
            states.append(json.loads(body))
            if states[-1].get("interaction_id") != asked or states[-1]["status"] == "running":
                looks.append(f"poll: {answer.status} {frame_shape(body)}")
        self.lines += [look for look, _ in groupby(looks)]

    def _act(self, action: Action, told: dict[str, Any], answer: Answer | None) -> None:
        match action:
            case Pause():
                time.sleep(action.seconds)
            case Leave():
                self._gone = True
                if answer is not None:
                    answer.leave()
            case Reply():
                body = (
                    {"response": right_reply(told["prompt"])}
                    if action.body is None
                    else action.body
                )
                self._request("reply", "POST", told["response_url"], body)
            case Ask():
                path = action.path.format(**self._ids)
                self._request("then", action.method, path, action.body)
            case Consent():
                self._consent(told["auth_url"], deny=action.deny)

    def _request(self, what: str, method: str, path: str, body: Any) -> None:
        self.lines.append(what)
        answer = Answer(self._server, method, path, body, self._headers)
        self._head(answer)
        self.lines += map(frame_shape, answer.frames())
        self.lines.append(f"end: {answer.end}")

    def _consent(self, url: str, *, deny: bool) -> None:
        self.lines.append("consent")
        query = sorted(parse_qs(urlsplit(url).query))
        self.lines.append(f"asks with: {' '.join(query)}")
        back = callback(url, deny=deny)
        answer = Answer(self._server, "GET", back, None, {})
        self._head(answer)
        for _ in answer.frames():
            pass  # the page is for human eyes

    def _head(self, answer: Answer) -> None:
        self.lines.append(f"status: {answer.status}")
        self.lines += sorted(
            f"{name}: {masked(value)}" for name, value in answer.headers if name not in _UNSEEN
        )


def callback(url: str, *, deny: bool = False) -> str:
    """Where the provider at ``url`` sends its user back to: path and query."""
    place = urlsplit(url)
    origin = Server("provider", f"{place.scheme}://{place.netloc}", 0, _NOWHERE)
    path = f"{place.path}?{place.query}" + ("&deny=access_denied" if deny else "")
    answer = Answer(origin, "GET", path, None, {})
    answer.leave()
    assert answer.status == 302
    back = urlsplit(urljoin(url, dict(answer.headers)["location"]))
    return f"{back.path}?{back.query}"


def right_reply(prompt: Mapping[str, Any]) -> dict[str, Any]:
    """2024, or the second of the options."""
    kind = prompt["input_type"]
    if kind == "text":
        return {"type": kind, "text": "2024"}
    return {"type": kind, "selected_option": prompt["options"][1]}


def _json_of(frame: str) -> dict[str, Any]:
    """The object in a frame, or nothing."""
    text = frame[frame.find("{") :] if "{" in frame else ""
    try:
        told = json.loads(text)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _kind_of(line: str) -> str:
    return line.partition(":")[0]
