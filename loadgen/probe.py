"""One turn, watched: what ``loadgen probe`` does.

The same brain and body as in a load test, with a persona that answers at once and a dialect that
tells what it hears.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast
from uuid import uuid4

from loadgen import dialects
from loadgen.clock import now_ns
from loadgen.conversation import Conversation
from loadgen.dialects.contract import Decoder, Dialect, Options, PlainDecoder
from loadgen.dialogue import Labels
from loadgen.events import Event, Prompt, PromptKind
from loadgen.feedback import reply_for
from loadgen.identity import IdentityPlan, resolve_identity
from loadgen.net.discovery import completed
from loadgen.net.driver import Driver, wiring_of
from loadgen.persona import PRESENT, Absence, ConsentPlan, ReplyPlan
from loadgen.plan import Deadlines, Reconnect, Target, allowed_origin
from loadgen.redaction import redacted
from loadgen.turn import TurnRecord
from loadgen.wire.frame import AnyFrame

Watcher = Callable[[int, str, str], None]
"""Called with (monotonic ns, name, one line) for each event as it is decoded; no line holds a
credential.
"""

_Hearer = Callable[[int, Event], None]


@dataclass(frozen=True, slots=True)
class Probe:
    """What to ask, and whom; ``reply`` answers prompts, else the first option or ``2024`` does."""

    host: str
    question: str
    dialect: str
    route: str | None = None
    identity: IdentityPlan = field(default_factory=IdentityPlan)
    reply: str | None = None
    timeout_s: float = 120.0
    insecure: bool = False
    options: Options = field(default_factory=dict)
    allow_origins: tuple[str, ...] = ()


def run(probe: Probe, watch: Watcher) -> TurnRecord:
    """Ask once and give the record.  Raises ConfigError and TargetError for unusable arguments."""
    origins = tuple(map(allowed_origin, probe.allow_origins))
    target = Target(verify_tls=not probe.insecure, allow_origins=origins)
    wiring = wiring_of(target, probe.host)
    options = completed(probe.dialect, probe.route, probe.options, wiring)
    dialect = dialects.create(probe.dialect, probe.route, wiring.site, options)
    limits = Deadlines(turn_s=probe.timeout_s, first_event_s=probe.timeout_s)
    identity = resolve_identity(probe.identity, 0, dialect.wire)

    def tell(at_ns: int, event: Event) -> None:
        name, text = describe(event)
        watch(at_ns, name, redacted(text, (*identity.secrets, *dialect.secrets)))

    conversation = Conversation(
        cast(Dialect, _Watched(dialect, tell)),
        identity,
        limits,
        Reconnect(),
        _Prompt(probe.reply),
        Random(),
        Labels("probe", "probe", "probe", "probe"),
        uuid4().hex,
        keep_answers=True,
    )
    driver = Driver(wiring, conversation, lambda record: None)
    try:
        return driver.ask(uuid4().hex, probe.question)
    finally:
        driver.close()


class _Prompt:
    """Replies at once."""

    def __init__(self, reply: str | None) -> None:
        self._reply = reply

    def patience_ns(self) -> int | None:
        return None

    def interrupt_ns(self) -> int | None:
        return None

    def absence(self) -> Absence:
        return PRESENT

    def consent(self) -> ConsentPlan:
        return ConsentPlan("follow", 0)

    def reply(self, prompt: Prompt, deliveries: int) -> ReplyPlan:
        value = self._reply
        if value is None and prompt.kind is PromptKind.FEEDBACK:
            value = reply_for(prompt.schema or {}, Random())
        elif value is None:
            choice = prompt.kind is not PromptKind.TEXT and prompt.options
            value = prompt.options[0].value if choice else "2024"
        return ReplyPlan(0, value)


class _Watched:
    """A dialect that tells its events; all else is the dialect's own."""

    def __init__(self, dialect: Dialect, watch: _Hearer) -> None:
        self._dialect = dialect
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dialect, name)

    def replied(self, status: int, body: str) -> Event:
        event = self._dialect.replied(status, body)
        self._watch(now_ns(), event)
        return event

    def decoder(self) -> Decoder:
        return _WatchedDecoder(self._dialect.decoder(), self._watch)


class _WatchedDecoder(PlainDecoder):
    def __init__(self, decoder: Decoder, watch: _Hearer) -> None:
        self._decoder = decoder
        self._watch = watch

    def begin(self, turn: str) -> None:
        self._decoder.begin(turn)

    def polled(self, status: int, body: str) -> tuple[Event, ...]:
        return self._told(self._decoder.polled(status, body))

    def __call__(self, frame: AnyFrame) -> tuple[Event, ...]:
        return self._told(self._decoder(frame))

    def _told(self, events: tuple[Event, ...]) -> tuple[Event, ...]:
        at = now_ns()
        for event in events:
            self._watch(at, event)
        return events


def describe(event: Event) -> tuple[str, str]:
    """Name and one-line text of an event, for people."""
    fields: dict[str, Any] = {
        name: getattr(event, name) for name in getattr(event, "__dataclass_fields__", ())
    }
    words = [f"{value}" for value in fields.values() if value not in (None, "", ())]
    return type(event).__name__, " ".join(words).replace("\n", " ")
