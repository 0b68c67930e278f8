"""A conversation on a table: a toy dialect, a body that only notes commands, time in ms."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import NamedTuple

from loadgen import metrics
from loadgen.clock import NS_PER_MS
from loadgen.commands import (
    Command,
    Drop,
    Errand,
    Finish,
    Hold,
    Parting,
    Post,
    Reconnect,
    Send,
    Visit,
    Wait,
)
from loadgen.conversation import Conversation
from loadgen.dialects.contract import (
    Ask,
    Identity,
    Opening,
    Plain,
    PlainDecoder,
    Preparation,
    Reply,
    Wire,
)
from loadgen.dialogue import Labels
from loadgen.events import (
    Answer,
    Completed,
    Event,
    Failed,
    Login,
    Notice,
    Opened,
    Pending,
    Prompt,
    PromptKind,
)
from loadgen.persona import PRESENT, Absence, ConsentPlan, ReplyPlan
from loadgen.phase import Phase
from loadgen.plan import Deadlines
from loadgen.plan import Reconnect as ReconnectPlan
from loadgen.turn import Cause, Outcome, TurnRecord
from loadgen.wire.frame import Request

HTTP, SOCKET = Wire.HTTP, Wire.WEBSOCKET

SECRET = "s3cr3t-token-of-the-analyst"

CONVERSATION = "c1"

PATIENT = Deadlines(
    connect_s=10, auth_s=10, first_event_s=120, silence_s=60, resume_s=15, turn_s=300
)
AT_ONCE = ReconnectPlan(policy="fixed", base_s=0.1, attempts=3)

_ORIGIN_NS = 10**12
"""0 ms of a test on the monotonic clock."""

TEXT = Prompt(PromptKind.TEXT, "p1", "which year?")
CONSENT = Prompt(PromptKind.OAUTH_CONSENT, "http://login/authorize?state=s", execution="e1")
PENDING = Pending("/executions/e1", 500_000_000, "e1")
AGENT_FAILED = Failed(Outcome.FAILED, Cause.AGENT_ERROR, "it broke")
AGENT_FAILS = Failed(Outcome.FAILED, Cause.AGENT_ERROR, "it breaks", final=False)
CUT = Failed(Outcome.INCOMPLETE, Cause.STREAM_CUT, "the connection was cut")


class Says(NamedTuple):
    """A frame that means ``events``."""

    events: tuple[Event, ...]


class ToyDecoder(PlainDecoder):
    """Frames are what they mean."""

    def __init__(self, states: list[tuple[Event, ...]]) -> None:
        self.turns: list[str] = []
        self.states = states

    def begin(self, turn: str) -> None:
        self.turns.append(turn)

    def polled(self, status: int, body: str) -> tuple[Event, ...]:
        return self.states.pop(0) if self.states else (AGENT_FAILED,)

    def __call__(self, frame: Says) -> tuple[Event, ...]:
        return frame.events


class Toy(Plain):
    """A dialect in one word a message: ``ask TURN``, ``reply KEY VALUE``, ``login``."""

    name = "toy"
    route = "/toy"

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.resumes = wire is SOCKET
        self.asked: list[Ask] = []
        self.decoders: list[ToyDecoder] = []
        self.states: list[tuple[Event, ...]] = []
        """What the answers to polls mean, in order."""
        self.greeting: tuple[str, ...] = ()
        self.needs: tuple[str, ...] = ()
        """What a connection needs; a ``session`` lasts as long as the conversation."""
        self.quits = False
        self.been: list[str] = []

    def preparations(self, opening: Opening) -> tuple[Preparation, ...]:
        return tuple(
            Preparation(name, Request("POST", "/", {}, name.encode()), name == "session", True)
            for name in self.needs
            if name not in opening.grants
        )

    def granted(self, name: str, status: int, body: str) -> str | Failed:
        cause = Cause.RATE_LIMITED if status == 429 else Cause.AUTH_REJECTED
        failed = Failed(Outcome.REFUSED, cause, f"{name} got {status}")
        return failed if status >= 300 else body or f"a {name}"

    def farewell(self, opening: Opening) -> Request | None:
        if "session" not in opening.grants:
            return None
        return Request("DELETE", "/", {}, f"end {opening.grants['session']}".encode())

    def quit(self) -> str | None:
        return "quit" if self.quits else None

    def visited(self, location: str) -> None:
        self.been.append(location)

    def upgrade(self, opening: Opening) -> Request:
        return Request(
            "GET", f"/toy?conversation_id={opening.conversation}" if opening.resume else "/toy"
        )

    def login(self, identity: Identity) -> str | None:
        return None if identity.login is None else "login"

    def ask(self, ask: Ask, identity: Identity) -> Request | str:
        self.asked.append(ask)
        return self._say(f"ask {ask.turn}")

    def reply(self, reply: Reply, ask: Ask, identity: Identity) -> Request | str:
        return self._say(f"reply {reply.prompt.key} {reply.value}")

    def decoder(self) -> ToyDecoder:
        self.decoders.append(ToyDecoder(self.states))
        return self.decoders[-1]

    def greetings(self) -> tuple[str, ...]:
        return self.greeting

    def poll(self, key: str, ask: Ask, identity: Identity) -> Request:
        return Request("GET", key, {}, f"poll {key}".encode())

    def reconcile(self, execution: str, ask: Ask, identity: Identity) -> Request | None:
        return Request("GET", f"/{execution}", {}, f"state of {execution}".encode())

    def state(self, status: int, body: str) -> str:
        return body or f"HTTP {status}"

    def replied(self, status: int, body: str) -> Event:
        if status == 204:
            return Notice("reply accepted")
        return Failed(Outcome.FAILED, Cause.AGENT_ERROR, f"reply got {status}", final=False)

    def _say(self, words: str) -> Request | str:
        return words if self.wire is SOCKET else Request("POST", "/toy", {}, words.encode())


@dataclass
class Habits:
    """What the analyst does at prompts, in ms; ``drops`` at a first delivery only."""

    reply_ms: float = 1000
    drop_ms: float | None = None
    patience_ms: float | None = None
    value: str = "2024"
    deliveries: list[int] = field(default_factory=list)

    interrupt_ms: float | None = None
    consents: ConsentPlan = field(default_factory=lambda: ConsentPlan("follow", 3_000_000_000))
    manner: dict[str, object] = field(default_factory=dict)
    """Other fields of each `ReplyPlan`."""

    def patience_ns(self) -> int | None:
        return None if self.patience_ms is None else _ns(self.patience_ms)

    away: Absence = PRESENT

    def absence(self) -> Absence:
        return self.away

    def interrupt_ns(self) -> int | None:
        return None if self.interrupt_ms is None else _ns(self.interrupt_ms)

    def consent(self) -> ConsentPlan:
        return self.consents

    def reply(self, prompt: Prompt, deliveries: int) -> ReplyPlan:
        self.deliveries.append(deliveries)
        drops = self.drop_ms is not None and deliveries == 1
        plan = ReplyPlan(_ns(self.reply_ms), self.value, _ns(self.drop_ms) if drops else None)
        return replace(plan, **self.manner)


class Talk:
    """A conversation and a body that carries out its commands by noting them.

    It keeps the owner's obligations, checks after every call that the conversation keeps its own,
    and writes at once unless ``slow``.  ``manner``: attributes of its dialect.
    ``lawless``: the owner keeps no obligations, so what is
    sent without a connection is its own fault.  All times in ms from 0.
    """

    def __init__(
        self,
        wire: Wire,
        *,
        login: bool = False,
        habits: Habits | None = None,
        deadlines: Deadlines = PATIENT,
        reconnect: ReconnectPlan = AT_ONCE,
        keep_answers: bool = True,
        seed: int = 1,
        slow: bool = False,
        lawless: bool = False,
        manner: dict[str, object] | None = None,
    ) -> None:
        self.wire = wire
        self.dialect = Toy(wire)
        for name, value in (manner or {}).items():
            setattr(self.dialect, name, value)
        self.habits = habits or Habits()
        self.slow = slow
        self.lawless = lawless
        self.said: list[str] = []
        self.records: list[TurnRecord] = []
        self.connected = False
        self.dialling = False
        self.posting: list[Errand] = []
        self.asked = 0
        self.alarm_ns: int | None = None
        identity = Identity(login={"method": "toy"} if login else None, secrets=(SECRET,))
        self.conversation = Conversation(
            self.dialect,
            identity,
            deadlines,
            reconnect,
            self.habits,
            Random(seed),
            Labels("u1", "toys", "local", "group"),
            CONVERSATION,
            keep_answers=keep_answers,
        )

    # what the tests ask for

    @property
    def phase(self) -> Phase:
        return self.conversation.phase

    @property
    def record(self) -> TurnRecord:
        """The record of the turn that ended last."""
        assert self.conversation.phase is Phase.IDLE, "the turn is still under way"
        return self.records[-1]

    @property
    def row(self) -> dict:
        return self.record.to_row()

    @property
    def end(self) -> tuple[Outcome, Cause | None]:
        return self.record.outcome, self.record.cause

    def heard(self) -> str:
        """What the body was told to do since the last call, as words; timers are left out."""
        said, self.said = self.said, []
        return ", ".join(said)

    # what happens

    def ask(self, at: float = 0, turn: str = "t1", **options: object) -> str:
        self.asked += 1
        self.conversation.ask(turn, f"question of {turn}", _at(at), **options)
        return self._done(at)

    def ask_at_hand(self, at: float = 0, turn: str = "t1", **options: object) -> str:
        """Ask on a connection that stands: kept alive, or a socket opened by a turn before."""
        if self.wire is HTTP:
            self.connected = True
            return self.ask(at, turn, at_hand=True, **options)
        if not self.conversation._ready:
            self.ask(at, "t0")
            self.open(at)
            self.hear(at, Answer("hello"), Completed())
            self.heard()
        return self.ask(at, turn, **options)

    def open(self, at: float) -> str:
        """TCP, TLS and, on a socket, the handshake."""
        self.dial(at)
        return self.hear(at, Opened()) if self.wire is SOCKET else ", ".join(self.said)

    def dial(self, at: float) -> str:
        """TCP and TLS."""
        self.connected, self.dialling = True, False
        self.conversation.connected(_at(at))
        return self._done(at)

    def login(self, at: float, ok: bool = True, detail: str = "") -> str:
        return self.hear(at, Login(ok, detail))

    def hear(self, at: float, *events: Event, size: int = 10, kernel: bool = True) -> str:
        """One read that means ``events``."""
        self.conversation.receive((Says(events),), _at(at), size, kernel)
        return self._done(at)

    def lose(self, at: float, answered: bool = True) -> str:
        """The byte stream ends."""
        self.connected = False
        self.conversation.lost(_at(at), answered)
        return self._done(at)

    def no_connection(self, at: float, cause: Cause = Cause.CONNECT_FAILED) -> str:
        self.connected = self.dialling = False
        self.conversation.connect_failed(_at(at), cause, "connection refused")
        return self._done(at)

    def flush(self, at: float) -> str:
        self.conversation.flushed(_at(at))
        for errand in self.posting:
            self.conversation.post_written(errand, _at(at))
        return self._done(at)

    def posted(self, at: float, status: int = 204, body: str = "") -> str:
        errand = self.posting.pop(0) if self.posting else Errand.REPLY
        self.conversation.posted(errand, status, body, _at(at))
        return self._done(at)

    def visited(self, at: float, status: int = 200, problem: str = "") -> str:
        self.conversation.visited(status, problem, _at(at))
        return self._done(at)

    def post_failed(self, at: float, cause: Cause = Cause.CONNECT_FAILED) -> str:
        errand = self.posting.pop(0) if self.posting else Errand.REPLY
        self.conversation.post_failed(errand, _at(at), cause, "connection refused")
        return self._done(at)

    def interrupt(
        self, at: float, outcome: Outcome = Outcome.CUT_OFF, cause: Cause | None = None
    ) -> str:
        self.conversation.interrupt(_at(at), outcome, cause)
        return self._done(at)

    def until(self, at: float) -> str:
        """Let time pass: the timer fires when it is due."""
        while self.alarm_ns is not None and self.alarm_ns <= _at(at):
            now_ns, self.alarm_ns = self.alarm_ns, None
            self.conversation.tick(now_ns)
            self._done((now_ns - _ORIGIN_NS) / NS_PER_MS)
        return ", ".join(self.said)

    # the body

    def _done(self, at: float) -> str:
        while self.conversation.has_commands:
            for command in self.conversation.take_commands():
                self._carry_out(command, at)
        due_ns = self.conversation.due_ns()
        if due_ns is None:
            assert self.conversation.phase is Phase.IDLE
            assert len(self.records) == self.asked, "one Finish for every ask"
        else:
            assert self.alarm_ns is not None, "nobody will call tick"
            assert self.alarm_ns <= due_ns, "tick will be called too late"
        return ", ".join(self.said)

    def _carry_out(self, command: Command, at: float) -> None:
        match command:
            case Send(outbound):
                assert self.connected or self.lawless, f"sent without connection: {outbound}"
                words = outbound if self.wire is SOCKET else outbound.body.decode()
                self._write(f"send {words}", at)
            case Post(errand, request):
                assert self.wire is HTTP or errand in (Errand.PREPARE, Errand.FAREWELL)
                self.posting.append(errand)
                self.said.append(f"post {request.body.decode()}")
                if not self.slow:
                    self.conversation.post_written(errand, _at(at))
            case Visit(url, deny):
                self.said.append(f"visit {url}{' to deny' if deny else ''}")
            case Wait(until_ns):
                earlier = until_ns if self.alarm_ns is None else min(self.alarm_ns, until_ns)
                self.alarm_ns = earlier
            case Hold(for_ns):
                self.said.append(f"hold for {for_ns / NS_PER_MS:g}")
            case Drop(_):
                self.connected = self.dialling = False
                self.said.append("drop")
            case Reconnect(upgrade):
                assert (upgrade is None) == (self.wire is HTTP)
                self.connected, self.dialling = False, True
                self.said.append("connect" if upgrade is None else f"connect {upgrade.path}")
            case Finish(record, parting):
                keep = parting is Parting.KEEP
                self.connected = self.connected and keep
                self.dialling = False
                self.posting.clear()
                self.alarm_ns = None
                self.said.append("finish" if keep else f"finish and {parting.value}")
                self.records.append(record)
                assert metrics.impossible(record.to_row()) is None, record.to_row()

    def _write(self, words: str, at: float) -> None:
        self.said.append(words)
        if not self.slow:
            self.conversation.flushed(_at(at))


def beside(phase: Phase) -> Talk:
    """A conversation in one of the phases of requests beside the turn's stream, after 1 s."""
    talk = Talk(HTTP, habits=Habits(reply_ms=50_000))
    talk.dialect.states += [(PENDING,)] * 3 + [(Answer("a"), Completed())]
    talk.ask_at_hand(0)
    if phase is Phase.POLLING:
        talk.hear(100, PENDING)
    else:
        talk.hear(100, Answer("a"), replace(TEXT, execution="e1"))
        talk.hear(1000, CUT)
    return talk


def clocks(record: TurnRecord) -> dict[str, float]:
    """The clocks of a turn by name, in ms."""
    return {clock.value: round(ms, 3) for clock, ms in metrics.turn_clocks(record.to_row()).items()}


def happenings(record: TurnRecord) -> list[tuple[str, float | None]]:
    """What happened inside a turn: (clock, ms or None)."""
    return [(item.clock.value, item.value_ms) for item in metrics.happenings(record.to_row())]


def _ns(ms: float) -> int:
    return round(ms * NS_PER_MS)


def _at(ms: float) -> int:
    return _ORIGIN_NS + _ns(ms)
