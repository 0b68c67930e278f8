"""NAT over a WebSocket: one socket for many turns, one turn at a time.

A turn ends with a ``system_response_message`` of status ``complete`` (published: ``completed``, or
``failed``), and well only if no ``error_message`` came before it.  Messages name their turn in
``parent_id``, steps do not (see `loadgen.dialects.nat.Steps`).

=================================  =============================================================
message                            event
=================================  =============================================================
``auth_response_message``          `Login`
``system_intermediate_message``    `Started` for the first, `Notice` for its echo, else `Progress`
``system_response_message``        `Answer` for text; empty or null text is a `Notice`
  with a closing status            `Completed`, or the `Failed` that came before; without a word
                                   of answer failed, empty_answer
``system_interaction_message``     `Prompt`; ``notification`` wants no reply, ``oauth_consent`` is
                                   `Failed`: nobody consents, the server would wait 300 s
``error_message``                  `Failed`, not final: the closing message makes it so.  Final at
                                   once for the codes that no closing message follows
``observability_trace_message``    `Notice`, usually after the end
``{code, message, details}``       `Failed`: an error outside of any turn (login at connect)
of another turn                    `Notice` ``stale``
of this turn, after its end        `Notice` ``late``
anything else                      `Notice` ``undecodable`` or ``unknown``
=================================  =============================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import urlencode

import orjson

from loadgen.dialects import nat
from loadgen.dialects.closing import closing_words
from loadgen.dialects.contract import (
    Ask,
    Identity,
    Opening,
    OptionModel,
    Options,
    Plain,
    PlainDecoder,
    Reply,
    Shape,
    Site,
    Wire,
    read_options,
)
from loadgen.dialects.refusal import brief, retry_after_ns, shown, upgrade_cause
from loadgen.errors import ConfigError, GeneratorError
from loadgen.events import (
    Answer,
    Completed,
    Event,
    Failed,
    Login,
    Lost,
    Notice,
    Opened,
    PromptKind,
)
from loadgen.turn import Cause, Outcome
from loadgen.wire.frame import AnyFrame, Close, Frame, Garbage, Open, Refused, Request

LOGIN_FIELDS = {
    "jwt": ("token",),
    "api_key": ("token",),
    "basic": ("username", "password"),
}
"""Methods of an ``auth_message`` and exactly what each wants: to anything else, or to an empty
value, the server does not answer at all.
"""

_CLOSE_CAUSES = {
    1002: Cause.PROTOCOL_VIOLATION,
    1003: Cause.PROTOCOL_VIOLATION,
    1007: Cause.PROTOCOL_VIOLATION,
    1008: Cause.AUTH_REJECTED,
    1009: Cause.PROTOCOL_VIOLATION,
}
"""1008 is how NAT refuses a credential at the handshake."""

_CODES_WITHOUT_CLOSING = {
    "user_auth_error": (Outcome.REFUSED, Cause.AUTH_REJECTED),
    "invalid_user_message_content": (Outcome.REFUSED, Cause.PROTOCOL_VIOLATION),
    "invalid_data_content": (Outcome.REFUSED, Cause.PROTOCOL_VIOLATION),
    "invalid_message": (Outcome.REFUSED, Cause.PROTOCOL_VIOLATION),
    "invalid_message_type": (Outcome.REFUSED, Cause.PROTOCOL_VIOLATION),
}
"""Of these only the second was ever seen on the wire; the others are published."""

_CLOSING = ("complete", "completed", "failed")
_ANY_TURN = (None, "", "default")
"""What the server writes where it has no turn to name."""

_LARGEST = 4096  # of a longer one not all need be parsed
_RESPONSE = "system_response_message"
_STEP_OPENING = '{"type":"system_intermediate_message"'
_STALE = (Notice("stale"),)
_LATE = (Notice("late"),)
_EMPTY = (Notice("empty delta"),)


class NatWsOptions(OptionModel):
    """``schema_type``: how the answer comes, as a stream or as one message; ``generate*`` get the
    last question only, ``chat*`` the dialogue before it too.  ``oauth_mode``: which callback page
    is wanted, said once on each connection.
    """

    schema_type: Literal["chat_stream", "chat", "generate_stream", "generate"] = "chat_stream"
    oauth_mode: Literal["redirect", "popup"] | None = None


class NatWs(Plain):
    """The dialect ``nat-ws``; replies travel on the socket, so the site does not matter to it."""

    name = "nat-ws"
    wire = Wire.WEBSOCKET
    resumes = True

    def __init__(
        self, route: str | None = None, site: Site | None = None, options: Options | None = None
    ) -> None:
        self.route = route or "/websocket"
        self._options = read_options(NatWsOptions, self.name, options or {})

    def upgrade(self, opening: Opening) -> Request:
        """``conversation_id`` is for resuming only: it does not name the turns to come."""
        identity = opening.identity
        query = {"conversation_id": opening.conversation} if opening.resume else {}
        query |= identity.query
        path = self.route
        if query:
            path = f"{path}{'&' if '?' in path else '?'}{urlencode(query)}"
        return Request("GET", path, dict(identity.headers))

    def login(self, identity: Identity) -> str | None:
        """The ``auth_message``.  Raises `ConfigError` where the server would stay silent."""
        if identity.login is None:
            return None
        method = identity.login.get("method", "")
        fields = LOGIN_FIELDS.get(method)
        if fields is None:
            known = ", ".join(LOGIN_FIELDS)
            raise ConfigError(f"login method must be one of {known}, got {method!r}")
        if set(identity.login) != {"method", *fields} or not all(identity.login.values()):
            raise ConfigError(f"login by {method} takes exactly {' and '.join(fields)}, not empty")
        return _text({"type": "auth_message", "payload": dict(identity.login)})

    def greetings(self) -> tuple[str, ...]:
        """Which callback page is wanted, if the options say so."""
        mode = self._options.oauth_mode
        if mode is None:
            return ()
        wish = {"method": "oauth_mode_preference", "mode": mode}
        return (_text({"type": "auth_message", "payload": wish}),)

    def ask(self, ask: Ask, identity: Identity) -> str:
        """The question with the conversation before it; ``timestamp`` is optional and left out."""
        messages = []
        schema_type = self._options.schema_type
        for question, answer in ask.history if schema_type.startswith("chat") else ():
            messages.append(_said("user", question))
            messages.append(_said("assistant", answer))
        messages.append(_said("user", ask.text))
        return _text(
            {
                "type": "user_message",
                "schema_type": schema_type,
                "id": ask.turn,
                "conversation_id": ask.conversation,
                "content": {"messages": messages},
            }
        )

    def reply(self, reply: Reply, ask: Ask, identity: Identity) -> str:
        """The reply: text for every kind of prompt, for choices the option's value.

        So there is no reply of another type; a malformed one has a string for its content, which
        the server drops without a word.
        """
        if reply.prompt.kind in (PromptKind.NOTIFICATION, PromptKind.OAUTH_CONSENT):
            raise GeneratorError(f"a prompt of kind {reply.prompt.kind} wants no reply")
        said: Any = _said("user", reply.value)
        if reply.shape is Shape.MALFORMED:
            said = {"role": "user", "content": reply.value}
        return _text(
            {
                "type": "user_interaction_message",
                "id": f"reply-{reply.prompt.key}",
                "thread_id": "default",
                "parent_id": reply.prompt.key,
                "conversation_id": ask.conversation,
                "content": {"messages": [said]},
            }
        )

    def decoder(self) -> WsDecoder:
        """A decoder for the life of one socket."""
        return WsDecoder()


class WsDecoder(PlainDecoder):
    """The frames of one socket to events; see the module's table."""

    __slots__ = ("_failure", "_open", "_said", "_steps", "_turn")

    def __init__(self) -> None:
        self._steps = nat.Steps()
        self._turn = ""
        self._open = False
        self._said = False
        self._failure: Failed | None = None

    def begin(self, turn: str) -> None:
        """A turn was asked, or is being resumed, on this socket."""
        self._steps.begin(turn)
        self._turn = turn
        self._open = True
        self._said = False
        self._failure = None

    def __call__(self, frame: AnyFrame) -> tuple[Event, ...]:
        """What ``frame`` means."""
        if type(frame) is Frame:
            return self._message(frame)
        if type(frame) is Open:
            return (Opened(),)
        if type(frame) is Close:
            return (self._closed(frame),)
        if type(frame) is Refused:
            return (self._refused(frame),)
        if type(frame) is Garbage:
            return (Failed(Outcome.FAILED, Cause.PROTOCOL_VIOLATION, brief(frame.detail)),)
        return (Notice("unknown", type(frame).__name__),)

    def usual(self, message: bytes) -> str | None:
        """The text of a response of the current turn that goes on."""
        if not self._open or len(message) > _LARGEST:
            return None
        try:
            told = orjson.loads(message)
            content = told["content"]
            if told["type"] != _RESPONSE or told["parent_id"] != self._turn:
                return None
            text, status = content["text"], told["status"]
        except (ValueError, LookupError, TypeError):
            return None
        if type(text) is not str or not text or status in _CLOSING:
            return None
        self._said = True
        return text

    def _message(self, frame: Frame) -> tuple[Event, ...]:
        if frame.kind != "text":
            return (nat.undecodable(f"{frame.kind} message"),)
        if frame.data.startswith(_STEP_OPENING):
            message = nat.parse_step(frame.data, "}}")
        else:
            message = nat.parse(frame.data)
        if message is None:
            return (nat.undecodable(frame.data),)
        kind = message.get("type")
        if type(kind) is str and (handle := _MESSAGES.get(kind)) is not None:
            return handle(self, message)
        if kind is None and nat.is_error(message):
            return self._error(message, message)
        return (Notice("unknown", brief(kind) if type(kind) is str else shown(kind)),)

    def _not_ours(self, message: nat.Json) -> tuple[Event, ...] | None:
        """What to say of a message that cannot change the current turn."""
        parent = message.get("parent_id")
        if parent != self._turn and parent not in _ANY_TURN:
            return _STALE
        return None if self._open else _LATE

    def _step(self, message: nat.Json) -> tuple[Event, ...]:
        content = message.get("content")
        if type(content) is not dict:
            return (nat.undecodable("step without content"),)
        event = self._steps.event(message, content.get("name"))
        return (event,) if self._open or type(event) is Notice else _LATE

    def _response(self, message: nat.Json) -> tuple[Event, ...]:
        if (ignored := self._not_ours(message)) is not None:
            return ignored
        content, status = message.get("content"), message.get("status")
        text = content.get("text") if type(content) is dict else content
        events: tuple[Event, ...] = ()
        if type(text) is str and text:
            self._said = True
            events = (Answer(text),)
        elif text:
            events = (nat.undecodable(f"text {shown(text)}"),)
        if status in _CLOSING:
            self._open = False
            return (*events, self._verdict(status))
        return events or _EMPTY

    def _verdict(self, status: Any) -> Event:
        if self._failure is not None:
            return self._failure
        if status == "failed":
            return Failed(Outcome.FAILED, Cause.AGENT_ERROR, "status failed")
        if not self._said:
            return Failed(Outcome.FAILED, Cause.EMPTY_ANSWER, "the answer has no text")
        return Completed()

    def _error_message(self, message: nat.Json) -> tuple[Event, ...]:
        return self._not_ours(message) or self._error(message, message.get("content"))

    def _error(self, message: nat.Json, error: Any) -> tuple[Event, ...]:
        detail = nat.error_text(error)
        code = error.get("code") if type(error) is dict else None
        known = _CODES_WITHOUT_CLOSING.get(code) if type(code) is str else None
        if known is not None or message is error:
            self._open = False
            outcome, cause = known or (Outcome.FAILED, Cause.AGENT_ERROR)
            return (Failed(outcome, cause, detail),)
        failure = Failed(Outcome.FAILED, Cause.AGENT_ERROR, detail)
        self._failure = self._failure or failure
        return (replace(failure, final=False),)

    def _interaction(self, message: nat.Json) -> tuple[Event, ...]:
        if (ignored := self._not_ours(message)) is not None:
            return ignored
        key = message.get("id")
        event = nat.prompt(message.get("content"), key if type(key) is str else "")
        if type(event) is Failed:
            self._open = False
        return (event,)

    def _login(self, message: nat.Json) -> tuple[Event, ...]:
        if message.get("status") == "success":
            return (Login(True),)
        return (Login(False, nat.error_text(message.get("payload"))),)

    def _trace(self, message: nat.Json) -> tuple[Event, ...]:
        other = message.get("parent_id") not in (self._turn, *_ANY_TURN)
        return _STALE if other else (Notice("trace"),)

    def _closed(self, close: Close) -> Lost:
        return Lost(closing_words(close), close.code, _CLOSE_CAUSES.get(close.code))

    def _refused(self, refused: Refused) -> Failed:
        """The handshake got a plain answer.  NAT gives 403 to an unknown path as well as to a bad
        session, so the detail names the status.
        """
        cause = upgrade_cause(refused.status)
        detail = f"handshake refused with HTTP {refused.status}"
        if refused.body.strip():
            detail = f"{detail}: {brief(refused.body)}"
        return Failed(
            Outcome.REFUSED, cause, detail, retry_after_ns=retry_after_ns(refused.headers)
        )


_MESSAGES: dict[str, Callable[[WsDecoder, nat.Json], tuple[Event, ...]]] = {
    "system_intermediate_message": WsDecoder._step,
    _RESPONSE: WsDecoder._response,
    "system_interaction_message": WsDecoder._interaction,
    "error_message": WsDecoder._error_message,
    "auth_response_message": WsDecoder._login,
    "observability_trace_message": WsDecoder._trace,
}


def _said(role: str, text: str) -> nat.Json:
    return {"role": role, "content": [{"type": "text", "text": text}]}


def _text(message: nat.Json) -> str:
    return orjson.dumps(message).decode()
