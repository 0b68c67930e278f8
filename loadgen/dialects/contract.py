"""What a dialect is: a wire language between its frames and our events.  Pure: no socket, no clock,
no randomness.

Adding one: a module with a class like `NatSse`, made from (route, `Site`, options), an entry in
`loadgen.dialects.DIALECTS`, a recording in ``tests/recordings`` with its row in the table of
expectations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, Protocol, TypeVar
from urllib.parse import SplitResult, urljoin, urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from loadgen.errors import ConfigError, GeneratorError
from loadgen.events import Event, Failed, Prompt
from loadgen.wire.frame import AnyFrame, Request

Options = Mapping[str, Any]
"""A dialect's own settings, from the plan's ``options``."""

_Model = TypeVar("_Model", bound=BaseModel)


class OptionModel(BaseModel):
    """Base of a dialect's options: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def read_options(model: type[_Model], dialect: str, options: Options) -> _Model:
    """``options`` as ``model``.  Raises `ConfigError` with a line for each mistake."""
    try:
        return model.model_validate(dict(options))
    except ValidationError as error:
        known = ", ".join(model.model_fields) or "none"
        lines = [
            f"options.{'.'.join(map(str, item['loc']))} of {dialect} {_complaint(item)}; "
            f"its options are {known}"
            for item in error.errors(include_url=False)
        ]
        raise ConfigError("\n".join(lines)) from None


def _complaint(item: Any) -> str:
    if item["type"] == "extra_forbidden":
        return "is not one of its options; check the spelling"
    if item["type"] == "missing":
        return "is missing"
    message = item["msg"].removeprefix("Value error, ")
    return f"is not usable: {message[:1].lower()}{message[1:]}, got {item['input']!r}"


class Wire(Enum):
    """Which codec carries the dialect."""

    HTTP = "http"
    """A request for each turn on a kept-alive connection."""

    WEBSOCKET = "websocket"
    """A socket that outlives the turn."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the analyst is, to the server.  ``login`` is sent in `auth_message`; headers and query go
    on every request.

    ``secrets`` are the texts that must never be recorded or printed.
    """

    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    login: Mapping[str, str] | None = None
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Site:
    """The target as a dialect needs to know it: ``origin`` is ``http://host:port``.

    A URL that the server supplies is followed only on that origin or on one of ``allowed``; without
    an origin only paths are accepted.
    """

    origin: str | None = None
    allowed: tuple[str, ...] = ()

    def locate(self, url: Any, route: str) -> tuple[str | None, str] | None:
        """``url``, as an answer of ``route`` gave it, as (one of ``allowed`` or None for our own
        origin, path with query); None when it leads where we do not go.
        """
        if type(url) is not str or not url or not url.isascii() or not url.isprintable():
            return None
        here = self.origin or "http://target.invalid"
        try:
            parts = urlsplit(urljoin(here + route, url))
            place, own = place_of(parts), place_of(urlsplit(here))
            allowed = {place_of(urlsplit(origin)): origin for origin in self.allowed}
        except ValueError:
            return None
        if " " in url or (self.origin is None and "://" in url.partition("?")[0]):
            return None
        if "@" in parts.netloc:
            return None
        path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        if place == own:
            return None, path
        return (allowed[place], path) if place in allowed else None


def place_of(parts: SplitResult) -> tuple[str, str | None, int | None]:
    """Scheme, host and port, the scheme's own port where none is given."""
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, port


@dataclass(frozen=True, slots=True)
class Ask:
    """One question as a dialect needs it.  ``history`` holds (question, answer) pairs of the
    conversation, oldest first.
    """

    turn: str
    conversation: str
    text: str
    history: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Opening:
    """What a connection is opened for.

    ``resume``: it takes up a turn again that an earlier one lost.  ``grants``: what the server gave
    in answer to the dialect's preparations, by their names.
    """

    identity: Identity
    conversation: str
    resume: bool = False
    grants: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Preparation:
    """A request that must be granted before a connection can be opened.

    ``lasting``: the grant serves the whole conversation, else one connection.  ``secret``: it must
    never be recorded or printed.
    """

    name: str
    request: Request
    lasting: bool = False
    secret: bool = False


class Shape(StrEnum):
    """How a reply is written; all but ``right`` are there to provoke the server."""

    RIGHT = "right"
    MALFORMED = "malformed"
    """Not as the server's schema wants it."""
    OTHER_TYPE = "other_type"
    """A reply to another kind of prompt."""
    WRONG_ID = "wrong_id"
    """A reply to a prompt that nobody made."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The analyst's answer to a prompt: ``value`` is the text, or the chosen option's value."""

    prompt: Prompt
    value: str
    shape: Shape = Shape.RIGHT


class Decoder(Protocol):
    """Frames of one connection (socket) or of one answer (HTTP) to events.

    Total: never raises, whatever the peer sent, and every frame becomes at least one event (but for
    the end of an HTTP answer whose turn is already over).
    """

    def begin(self, turn: str) -> None:
        """A question was put, or its turn is being resumed here: from now on frames belong to
        ``turn``.  The owner calls it before it feeds the first frame of the turn; decoders of one
        HTTP answer need not care.
        """

    def __call__(self, frame: AnyFrame) -> tuple[Event, ...]:
        """What ``frame`` means."""

    def usual(self, message: bytes) -> str | None:
        """The answer text of ``message`` (of `Link.usual`), if calling this decoder with its frame
        would give just one `Answer`; else None, and the frame will come.  A shorter way for nearly
        all of a stream, which a decoder need not have.
        """

    def polled(self, status: int, body: str) -> tuple[Event, ...]:
        """What the answer to `Dialect.poll` means: at least one event.  Only decoders that give
        `Pending` are asked.
        """


class Dialect(Protocol):
    """An agent's wire language.  `Plain` has the defaults of what most do without."""

    name: str
    wire: Wire
    route: str
    resumes: bool
    """Whether a turn goes on when its socket is lost and another takes its conversation up."""
    reasks: int
    """How often a question is put again, at once, when its connection is lost."""
    one_turn: bool
    """Whether a socket carries one turn and is closed after it."""
    one_conversation: bool
    """Whether a socket belongs to the conversation that it was opened for."""
    reopens: bool
    """Whether the analyst's login elsewhere costs the socket, and a new one goes on."""
    secrets: tuple[str, ...]
    """Credentials that it learned on the way, and that must never be recorded or printed."""

    def preparations(self, opening: Opening) -> tuple[Preparation, ...]:
        """What is needed first, in order; what `Opening.grants` has already is left out."""

    def granted(self, name: str, status: int, body: str) -> str | Failed:
        """What the answer to the preparation ``name`` gives, or why it gives nothing."""

    def farewell(self, opening: Opening) -> Request | None:
        """The request that ends a conversation on the server."""

    def upgrade(self, opening: Opening) -> Request:
        """The opening request of a socket.  WebSocket dialects only."""

    def login(self, identity: Identity) -> str | None:
        """The message that must be answered by `Login` before anything else is sent; None when
        there is nothing to say.
        """

    def greetings(self) -> tuple[str, ...]:
        """Messages that are said once on each usable socket and never answered."""

    def ask(self, ask: Ask, identity: Identity) -> Request | str:
        """The question: a request for `Wire.HTTP`, a text message for `Wire.WEBSOCKET`."""

    def reply(self, reply: Reply, ask: Ask, identity: Identity) -> Request | str:
        """The answer to a prompt: a request for a connection of its own, or a message on the
        socket.
        """

    def quit(self) -> str | None:
        """What an analyst says on the socket that gives its turn up; None: it just leaves."""

    def visited(self, location: str) -> None:
        """The analyst's login elsewhere ended at the URL ``location``."""

    def decoder(self) -> Decoder:
        """A fresh decoder."""

    def replied(self, status: int, body: str) -> Event:
        """What the answer to a reply request means: `Notice` when accepted, else `Failed` (not
        final: the stream decides).
        """

    def poll(self, key: str, ask: Ask, identity: Identity) -> Request:
        """The request for the state of a turn that is `Pending`."""

    def reconcile(self, execution: str, ask: Ask, identity: Identity) -> Request | None:
        """The request for what the server says of a run whose stream broke off; None where there is
        nothing to ask.
        """

    def state(self, status: int, body: str) -> str:
        """What the answer to `reconcile` says of the run, in a word or two."""


class PlainDecoder:
    """What a decoder does that has nothing special."""

    __slots__ = ()

    def begin(self, turn: str) -> None:
        """Nothing to do: an answer is the turn's own."""

    def usual(self, message: bytes) -> str | None:
        """There is no shorter way."""
        return None

    def polled(self, status: int, body: str) -> tuple[Event, ...]:
        """What does not poll is never asked."""
        raise GeneratorError("this dialect does not poll")


class Plain:
    """What a dialect does that has nothing special: no preparations, no socket, no polls."""

    name: str
    resumes = False
    reasks = 0
    one_turn = False
    one_conversation = False
    reopens = False
    secrets: tuple[str, ...] = ()

    def preparations(self, opening: Opening) -> tuple[Preparation, ...]:
        """Nothing is needed first."""
        return ()

    def granted(self, name: str, status: int, body: str) -> str | Failed:
        """Nothing was asked for."""
        raise self._cannot("prepare")

    def farewell(self, opening: Opening) -> Request | None:
        """The server need not know."""
        return None

    def upgrade(self, opening: Opening) -> Request:
        """There is no socket to open."""
        raise self._cannot("open a socket")

    def login(self, identity: Identity) -> str | None:
        """Identity travels with each request."""
        return None

    def greetings(self) -> tuple[str, ...]:
        """Nothing to say."""
        return ()

    def quit(self) -> str | None:
        """An analyst that gives up just leaves."""
        return None

    def visited(self, location: str) -> None:
        """Where a login ended does not matter."""

    def replied(self, status: int, body: str) -> Event:
        """Replies travel on the socket and have no answer of their own."""
        raise self._cannot("reply by a request")

    def poll(self, key: str, ask: Ask, identity: Identity) -> Request:
        """A stream is never asked again and again."""
        raise self._cannot("poll")

    def reconcile(self, execution: str, ask: Ask, identity: Identity) -> Request | None:
        """Runs have no id."""
        return None

    def state(self, status: int, body: str) -> str:
        """Never asked for."""
        raise self._cannot("ask for the state of a run")

    def _cannot(self, what: str) -> GeneratorError:
        return GeneratorError(f"{self.name} does not {what}")
