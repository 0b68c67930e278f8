"""Progress Agentic RAG over a WebSocket: a token and a socket for each question, as its published
clients do, or a socket for many.

===========================  ===================================================================
frame                        event
===========================  ===================================================================
a text message               as in the table of `loadgen.dialects.arag_frames`
handshake done               `Opened`
handshake refused            `Failed`: 401 and 403 auth_rejected, 429 rate_limited, else
                             connect_failed, as on every socket
close 1000 after the whole   `Notice` ``no DONE`` and `Completed`
answer, without DONE
any other close              `Lost`, also between turns: after a turn it is the rule
a breach of the protocol     `Failed`, protocol_violation
===========================  ===================================================================

A turn goes on over another socket in one case: the documented login leads the browser away from
the page that holds the socket.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Literal

import orjson

from loadgen import feedback
from loadgen.dialects import arag
from loadgen.dialects.arag_frames import AnswerFrames, Heard
from loadgen.dialects.arag_login import Edition, Keyring, message
from loadgen.dialects.closing import closing_words
from loadgen.dialects.contract import (
    Ask,
    Identity,
    Opening,
    Options,
    Plain,
    PlainDecoder,
    Preparation,
    Reply,
    Shape,
    Site,
    Wire,
    read_options,
)
from loadgen.dialects.refusal import brief, retry_after_ns, upgrade_cause
from loadgen.errors import ConfigError, GeneratorError
from loadgen.events import Event, Failed, Lost, Notice, Opened, PromptKind
from loadgen.turn import Cause, Outcome
from loadgen.wire.frame import AnyFrame, Close, Frame, Garbage, Open, Refused, Request

_CLOSE_CAUSES = {
    1002: Cause.PROTOCOL_VIOLATION,
    1003: Cause.PROTOCOL_VIOLATION,
    1007: Cause.PROTOCOL_VIOLATION,
    1008: Cause.AUTH_REJECTED,
    1009: Cause.PROTOCOL_VIOLATION,
}
_NORMAL = 1000
_SDK_RUNS = 3
"""So often the published JavaScript client puts a question whose socket is lost."""

_QUIT = message({"question": "", "operation": 1})


class AragWsOptions(arag.AragOptions):
    """``token``: the path that gives it, or ``none``; by default ``account`` where an ``account``
    is given, else ``agent``.  ``keep_open``: one socket for many questions.  ``create_session``:
    the server may create a session that it does not know.

    ``reconnect``: ``sdk`` puts the question again, at once, when the connection is lost, up to
    three runs in all.  ``edition``: how logins go, as the server was released or as documented.
    """

    token: Literal["account", "agent", "plain", "none"] | None = None
    account: str | None = None
    keep_open: bool = False
    create_session: bool = True
    reconnect: Literal["none", "sdk"] = "none"
    edition: Edition = "released"


class AragWs(Plain):
    """The dialect ``arag-ws``."""

    name = "arag-ws"
    wire = Wire.WEBSOCKET

    def __init__(
        self, route: str | None = None, site: Site | None = None, options: Options | None = None
    ) -> None:
        self._options = given = read_options(AragWsOptions, self.name, options or {})
        self._service = arag.Service.of(self.name, route, given)
        self._token = given.token or ("agent" if given.account is None else "account")
        if self._token == "account" and not given.account:
            raise ConfigError(f"options.token of {self.name} is 'account': give options.account")
        if self._token != "account" and given.account is not None:
            raise ConfigError(f"options.account of {self.name} has no use with this options.token")
        self.route = self._service.route
        self.reasks = _SDK_RUNS - 1 if given.reconnect == "sdk" else 0
        self.one_turn = not given.keep_open
        self.one_conversation = given.session != arag.EPHEMERAL
        self.reopens = given.edition == "documented"
        self._heard = Heard()
        self._tokens: deque[str] = deque(maxlen=_SDK_RUNS)
        self._keyring = Keyring(given.edition, self._learn)
        feedback.load()

    def preparations(self, opening: Opening) -> tuple[Preparation, ...]:
        """Session, then token; the token's request has to wait for the session's name."""
        needed = self._service.sessions(opening)
        if needed or self._token == "none" or arag.TOKEN in opening.grants:
            return needed
        return (self._service.token(opening, self._token, self._options.account),)

    def granted(self, name: str, status: int, body: str) -> str | Failed:
        """A token, a session's id, or why there is none."""
        grant = self._service.granted(name, status, body)
        if name == arag.TOKEN and type(grant) is str:
            self._tokens.append(grant)
            self._learn()
        return grant

    def farewell(self, opening: Opening) -> Request | None:
        """The request that deletes a session that was created."""
        return self._service.farewell(opening)

    def upgrade(self, opening: Opening) -> Request:
        """A browser can give a socket no headers: who asks is in the token.  Without one, headers
        it must be.
        """
        query = {}
        if self._token != "none":
            query["eph-token"] = opening.grants.get(arag.TOKEN, "")
        if self._options.keep_open:
            query["keep_open"] = "true"
        if not self._options.create_session:
            query["create_session_if_not_exists"] = "false"
        identity = opening.identity if self._token == "none" else Identity()
        path = self._service.path(opening.conversation, "/ws", {**query, **identity.query})
        return Request("GET", path, dict(identity.headers))

    def ask(self, ask: Ask, identity: Identity) -> str:
        """The question."""
        return message(self._service.question(ask))

    def reply(self, reply: Reply, ask: Ask, identity: Identity) -> str:
        """The reply: its value, a JSON text, is sent as a string."""
        prompt = reply.prompt
        if prompt.kind is not PromptKind.FEEDBACK:
            raise GeneratorError(f"a prompt of kind {prompt.kind} wants no reply")
        response: Any = reply.value
        if reply.shape is Shape.MALFORMED:
            response = {"value": _value(reply.value)}
        elif reply.shape is Shape.OTHER_TYPE:
            response = feedback.other_than(prompt.schema or {})
        wrong = reply.shape is Shape.WRONG_ID
        request = f"not-{prompt.key}" if wrong else prompt.key
        return message({"request_id": request, "response": response})

    def quit(self) -> str:
        """What the published clients say; no published server understands it."""
        return _QUIT

    def visited(self, location: str) -> None:
        """The documented front end reads its credential from there."""
        self._keyring.visited(location)

    def decoder(self) -> SocketDecoder:
        """A decoder for the life of one socket."""
        return SocketDecoder(AnswerFrames(self._heard, self._keyring))

    def _learn(self) -> None:
        self.secrets = (*self._keyring.secrets, *self._tokens)


class SocketDecoder(PlainDecoder):
    """The frames of one socket to events; see the module's table."""

    __slots__ = ("_frames",)

    def __init__(self, frames: AnswerFrames) -> None:
        self._frames = frames

    def begin(self, turn: str) -> None:
        """A turn was asked, or is being resumed, on this socket."""
        self._frames.begin(turn)

    def __call__(self, frame: AnyFrame) -> tuple[Event, ...]:
        """What ``frame`` means."""
        if type(frame) is Frame:
            if frame.kind == "text":
                return self._frames(frame.data)
            return (Notice("undecodable", f"{frame.kind} message"),)
        if type(frame) is Open:
            return (Opened(),)
        if type(frame) is Close:
            return self._closed(frame)
        if type(frame) is Refused:
            return (_refused(frame),)
        if type(frame) is Garbage:
            return (Failed(Outcome.FAILED, Cause.PROTOCOL_VIOLATION, brief(frame.detail)),)
        return (Notice("unknown", type(frame).__name__),)

    def _closed(self, close: Close) -> tuple[Event, ...]:
        if self._frames.open and close.code == _NORMAL:
            ending = self._frames.unfinished()
            if ending is not None:
                return ending
        return (Lost(closing_words(close), close.code, _CLOSE_CAUSES.get(close.code)),)


def _refused(refused: Refused) -> Failed:
    """The handshake got a plain answer."""
    cause = upgrade_cause(refused.status)
    detail = f"handshake refused with HTTP {refused.status}"
    if refused.body.strip():
        detail = f"{detail}: {brief(refused.body)}"
    return Failed(Outcome.REFUSED, cause, detail, retry_after_ns=retry_after_ns(refused.headers))


def _value(text: str) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        return text
