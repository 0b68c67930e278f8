"""The brain: an analyst's dialogue as a sans-I/O state machine, one turn at a time.

The owner (the driver) tells it what happened and when; it answers with commands that the owner
carries out.  It opens no socket and reads no clock: times are arguments, in monotonic ns.

Obligations of the owner:

- after every call, carry out `take_commands` in order while `has_commands`;
- call `flushed` once all bytes of a `Send`, and `post_written` once those of a `Post`, have been
  handed to the kernel;
- keep one timer, at the earliest `Wait`, and call `tick` when it fires;
- after `Drop` and `Reconnect`, forget the old connection: nothing of it may be fed in any more.

Legal moves are the table `MOVES`.  An illegal one is the generator's fault and raises
`GeneratorError`; what a peer or the network does is never an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Any, Protocol

from loadgen.clock import NS_PER_S
from loadgen.commands import Command, Drop, Errand, Finish, Post, Reconnect, Send, Visit, Wait
from loadgen.dialects.contract import Ask, Decoder, Dialect, Identity, Reply, Wire
from loadgen.errors import GeneratorError
from loadgen.events import (
    Answer,
    Completed,
    Failed,
    Login,
    Lost,
    Notice,
    Opened,
    Pending,
    Progress,
    Prompt,
    PromptKind,
    Started,
)
from loadgen.openturn import OpenTurn, Verdict
from loadgen.persona import ConsentPlan, ReplyPlan
from loadgen.plan import REDACTED, Deadlines, seconds_ns
from loadgen.plan import Reconnect as ReconnectPlan
from loadgen.turn import Cause, LossRecord, Milestone, Outcome, Timeline, TurnRecord
from loadgen.wire.frame import AnyFrame


class Phase(Enum):
    """Where a conversation stands."""

    IDLE = "idle"
    CONNECTING = "connecting"
    LOGGING_IN = "logging in"
    WAITING = "waiting for the first event"
    WORKING = "working"
    HUMAN = "waiting for the analyst"
    POLLING = "asking how the turn stands"
    BACKING_OFF = "backing off"
    RESUMING = "resuming"
    SETTLING = "ended, with a last request under way"


_IDLE, _CONNECTING, _LOGGING_IN, _WAITING, _WORKING, _HUMAN = list(Phase)[:6]
_POLLING, _BACKING_OFF, _RESUMING, _SETTLING = list(Phase)[6:]

MOVES: dict[Phase, frozenset[Phase]] = {
    _IDLE: frozenset({_CONNECTING, _WAITING}),
    _CONNECTING: frozenset({_LOGGING_IN, _WAITING, _RESUMING, _BACKING_OFF, _IDLE}),
    _LOGGING_IN: frozenset({_WAITING, _RESUMING, _BACKING_OFF, _IDLE}),
    _WAITING: frozenset({_WORKING, _BACKING_OFF, _CONNECTING, _IDLE}),
    _WORKING: frozenset({_HUMAN, _POLLING, _BACKING_OFF, _SETTLING, _IDLE}),
    _HUMAN: frozenset({_WORKING, _POLLING, _BACKING_OFF, _SETTLING, _IDLE}),
    _POLLING: frozenset({_HUMAN, _SETTLING, _IDLE}),
    _BACKING_OFF: frozenset({_CONNECTING, _IDLE}),
    _RESUMING: frozenset({_WORKING, _BACKING_OFF, _IDLE}),
    _SETTLING: frozenset({_IDLE}),
}
"""Legal transitions; every phase may also stay where it is."""

_LISTENING = frozenset({_WAITING, _WORKING, _HUMAN, _POLLING, _RESUMING})
"""The question is out and the connection usable: what is said now is said to this turn."""

_UNHURRIED = frozenset({_HUMAN, _SETTLING})
"""The turn's own deadline stands still, or does not matter any more."""

_POLL_FAILURES = 3
"""So many polls in a row that find no server end the turn."""

_DETAIL_LIMIT = 500
_TELLING = 8
"""So many first characters of a secret tell it: a server's words may be cut in its middle."""


class Habits(Protocol):
    """What the conversation asks of a persona."""

    def patience_ns(self) -> int | None:
        """How long the analyst waits for this turn."""

    def interrupt_ns(self) -> int | None:
        """How long after its question the analyst asks something else; None: it waits."""

    def reply(self, prompt: Prompt, deliveries: int) -> ReplyPlan:
        """What the analyst does at ``prompt``, delivered for the ``deliveries``-th time."""

    def consent(self) -> ConsentPlan:
        """What the analyst does when the agent wants it to log in elsewhere."""


@dataclass(frozen=True, slots=True)
class Labels:
    """What every record of an analyst carries."""

    user: str
    scenario: str
    worker: str
    group: str


class Conversation:
    """One analyst's dialogue with the target over one dialect."""

    def __init__(
        self,
        dialect: Dialect,
        identity: Identity,
        deadlines: Deadlines,
        reconnect: ReconnectPlan,
        habits: Habits,
        rng: Random,
        labels: Labels,
        conversation: str,
        *,
        keep_answers: bool = False,
    ) -> None:
        self.dialect = dialect
        self.identity = identity
        self.id = conversation
        self.phase = Phase.IDLE
        self._deadlines = deadlines
        self._reconnect = reconnect
        self._habits = habits
        self._rng = rng
        self._labels = labels
        self._keep_answers = keep_answers
        self._is_socket = dialect.wire is Wire.WEBSOCKET
        self._decoder: Decoder | None = None
        self._ready = False
        self._commands: list[Command] = []
        self._turn: OpenTurn | None = None
        self._unflushed: list[Callable[[OpenTurn, int], None]] = []
        self._attempt = 0
        self._entered_ns = 0
        self._resume_at_ns = 0
        self._settle_at_ns = 0
        self._strays = 0
        self._idle_loss: LossRecord | None = None
        self._history: list[tuple[str, str]] = []
        self._number = 0

    # what the analyst does

    def restart(self, conversation: str) -> None:
        """Begin a new dialogue: another id, no history; a socket stays as it is."""
        if self._turn is not None:
            raise GeneratorError("a conversation cannot be restarted while a turn is under way")
        self.id = conversation
        self._history.clear()
        self._number = 0

    def ask(
        self,
        turn: str,
        text: str,
        at_ns: int,
        *,
        started_at: str = "",
        scheduled_ns: int | None = None,
        tag: str | None = None,
        at_hand: bool = False,
    ) -> None:
        """Put a question; STARTED is ``at_ns``.

        ``tag`` is what the answer must echo.  ``at_hand``: the owner holds an idle HTTP connection
        that can carry the request.
        """
        if self._turn is not None:
            raise GeneratorError("a question was asked while the turn before is still under way")
        record = self._new_record(turn, at_ns, scheduled_ns or at_ns)
        record.started_at, record.tag = started_at, tag
        ask = Ask(turn, self.id, text, tuple(self._history))
        self._turn = OpenTurn(ask, record, self._habits.patience_ns())
        self._turn.interrupt_ns = self._habits.interrupt_ns()
        self._attempt = 0
        if self._ready or at_hand:
            self._send_question(self._turn, at_ns)
        else:
            self._connect(self._turn, at_ns, resume=False)

    def interrupt(
        self, at_ns: int, outcome: Outcome, cause: Cause | None, detail: str = ""
    ) -> None:
        """End the turn from our side: the run stops, the analyst leaves, or we are at fault.

        A turn that had ended already keeps its verdict.
        """
        turn = self._turn
        if turn is not None:
            if turn.verdict is None or cause is Cause.GENERATOR_FAULT:
                turn.verdict = Verdict(at_ns, outcome, cause, detail, keep=False)
            self._close(turn, at_ns)

    # what the network does

    def connected(self, at_ns: int) -> None:
        """TCP and TLS stand; on a socket the handshake follows, and `Opened` comes from the
        dialect.
        """
        if self._turn is None or self.phase is not Phase.CONNECTING:
            return
        if self._is_socket:
            self._decoder = self.dialect.decoder()
        else:
            self._opened(self._turn, at_ns)

    def connect_failed(self, at_ns: int, cause: Cause, detail: str) -> None:
        """The connection could not be made."""
        if self._turn is not None and self.phase is Phase.CONNECTING:
            self._no_connection(self._turn, at_ns, cause, detail)

    def flushed(self, at_ns: int) -> None:
        """All bytes queued so far are with the kernel."""
        waiting, self._unflushed = self._unflushed, []
        if self._turn is not None:
            for call in waiting:
                call(self._turn, at_ns)

    def receive(self, frames: Sequence[AnyFrame], at_ns: int, size: int, kernel: bool) -> None:
        """Frames that one read of ``size`` bytes gave; ``kernel``: the stamp is the kernel's.

        What arrived before the question was asked is no answer to it, even if it is read later.
        """
        turn, decode = self._turn, self._decoder
        if turn is not None:
            if at_ns < turn.asked_ns:
                self._receive_early(turn, frames, at_ns)
                return
            turn.read(at_ns, size, kernel)
        if decode is None:
            return
        burst = 0
        for frame in frames:
            for event in decode(frame):
                burst += 1
                _HANDLERS[event.__class__](self, event, at_ns)
        if turn is not None and burst:
            turn.burst(burst)

    def lost(self, at_ns: int, answered: bool = True) -> None:
        """The byte stream ended, all its frames received.

        ``answered`` is false if the connection was reused and closed before any byte of this
        answer: the server's keep-alive ran out in the instant of our request, and the question is
        put once more on a fresh connection.
        """
        turn = self._turn
        self._ready = False
        if turn is None:
            if self._is_socket and self._idle_loss is None:
                self._idle_loss = LossRecord(at_ns, "idle")
        elif not answered and self.phase is Phase.WAITING and not turn.retried:
            self._ask_anew(turn, at_ns)
        elif turn.verdict is None and not turn.poll_key:
            self._lose(turn, at_ns, Lost("connection closed"))

    def post_written(self, errand: Errand, at_ns: int) -> None:
        """All bytes of a `Post` are with the kernel."""
        if self._turn is not None and errand is Errand.REPLY:
            self._turn.reply_written(at_ns)

    def posted(self, errand: Errand, status: int, body: str, at_ns: int) -> None:
        """The answer to a `Post`."""
        if self._turn is not None:
            _POSTED[errand](self, self._turn, status, body, at_ns)

    def post_failed(self, errand: Errand, at_ns: int, cause: Cause, detail: str) -> None:
        """A `Post` could not be delivered, or its answer was cut."""
        turn = self._turn
        if turn is not None:
            _POST_FAILED[errand](self, turn, at_ns, cause, detail)

    def visited(self, status: int, problem: str, at_ns: int) -> None:
        """The analyst has been where a `Visit` led it; ``problem`` says why it did not arrive."""
        turn = self._turn
        if turn is None or turn.replying is None or turn.verdict is not None:
            return
        turn.replying.reply_status = status or None
        turn.replying.reply_done_ns = at_ns
        if problem:
            words = f"oauth consent: {problem}"
            self._finish(turn, at_ns, Outcome.FAILED, Cause.AUTH_REJECTED, words)

    # what time does

    def due_ns(self) -> int | None:
        """When `tick` is due next; None without a turn."""
        turn = self._turn
        if turn is None:
            return None
        due = self._phase_due(turn)
        return due if self.phase in _UNHURRIED else min(due, self._turn_due(turn))

    def tick(self, now_ns: int) -> None:
        """The timer fired: act on what is due, wait for what is not."""
        turn = self._turn
        due = self.due_ns()
        if turn is None or due is None:
            return
        if now_ns < due:
            self._commands.append(Wait(due))
        elif self.phase not in _UNHURRIED and now_ns >= self._turn_due(turn):
            self._give_up(turn, now_ns)
        else:
            _OVERDUE[self.phase](self, turn, now_ns)

    @property
    def has_commands(self) -> bool:
        """Whether `take_commands` would give any."""
        return bool(self._commands)

    def take_commands(self) -> list[Command]:
        """The commands to carry out now, in order."""
        commands, self._commands = self._commands, []
        return commands

    # connection

    def _connect(self, turn: OpenTurn, at_ns: int, *, resume: bool) -> None:
        self._ready = False
        self._decoder = None
        self._unflushed.clear()
        upgrade = None
        if self._is_socket:
            upgrade = self.dialect.upgrade(self.identity, self.id if resume else None)
        turn.connect(at_ns, resume)
        self._commands.append(Reconnect(upgrade))
        self._enter(Phase.CONNECTING, at_ns)

    def _opened(self, turn: OpenTurn, at_ns: int) -> None:
        if turn.connection is not None:
            turn.connection.connected_ns = at_ns
        if not turn.asked_ns:
            turn.record.timeline.mark(Milestone.CONNECTED, at_ns)
        login = self.dialect.login(self.identity) if self._is_socket else None
        if login is None:
            self._usable(turn, at_ns)
            return
        if turn.connection is not None:
            turn.connection.login_ns = at_ns
        self._commands.append(Send(login))
        self._enter(Phase.LOGGING_IN, at_ns)

    def _usable(self, turn: OpenTurn, at_ns: int) -> None:
        """Connected and, where needed, logged in: ask, or wait for the turn to come back."""
        self._ready = self._is_socket
        if self._is_socket:
            self._commands.extend(Send(words) for words in self.dialect.greetings())
        if turn.asked_ns:
            if self._decoder is not None:
                self._decoder.begin(turn.ask.turn)
            self._enter(Phase.RESUMING, at_ns)
        else:
            self._send_question(turn, at_ns)

    def _ask_anew(self, turn: OpenTurn, at_ns: int) -> None:
        """The question went to a connection that was already dead: put it on a fresh one."""
        turn.retry()
        self._connect(turn, at_ns, resume=False)

    def _receive_early(self, turn: OpenTurn, frames: Sequence[AnyFrame], at_ns: int) -> None:
        """Read during the turn, but here before its question: strays, and perhaps a socket's end.

        A socket that had ended by then never carried the question.
        """
        lost: Lost | None = None
        for frame in frames:
            for event in self._decoder(frame) if self._decoder is not None else ():
                if isinstance(event, Lost):
                    lost = event
                else:
                    self._strays += 1
        if lost is not None and self.phase is Phase.WAITING:
            turn.record.losses.append(LossRecord(at_ns, "idle", code=lost.code))
            self._ask_anew(turn, turn.asked_ns)

    def _send_question(self, turn: OpenTurn, at_ns: int) -> None:
        if not self._is_socket:
            self._decoder = self.dialect.decoder()
        if self._decoder is None:
            raise GeneratorError("a question was sent before the connection was open")
        self._decoder.begin(turn.ask.turn)
        turn.asked_ns = turn.last_event_ns = at_ns
        self._unflushed.append(_question_written)
        self._commands.append(Send(self.dialect.ask(turn.ask, self.identity)))
        self._enter(Phase.WAITING, at_ns)

    def _lose(self, turn: OpenTurn, at_ns: int, lost: Lost) -> None:
        if self.phase in (Phase.CONNECTING, Phase.LOGGING_IN):
            cause = lost.cause or Cause.CONNECT_FAILED
            self._no_connection(turn, at_ns, cause, lost.detail or "connection closed")
        elif self.phase is not Phase.BACKING_OFF:
            turn.lose(at_ns, lost.code)
            resumable = self._is_socket and turn.failure is None and lost.cause is None
            if lost.cause is Cause.AUTH_REJECTED:
                self._finish(turn, at_ns, Outcome.REFUSED, lost.cause, lost.detail)
            elif not resumable or self._reconnect.policy == "none":
                cause = lost.cause or Cause.STREAM_CUT
                self._finish(turn, at_ns, Outcome.INCOMPLETE, cause, lost.detail)
            else:
                self._back_off(turn, at_ns, lost.detail)

    def _no_connection(self, turn: OpenTurn, at_ns: int, cause: Cause, detail: str) -> None:
        if turn.connection is not None:
            turn.connection.failure = cause.value
        if not turn.asked_ns:
            self._finish(turn, at_ns, Outcome.REFUSED, cause, detail)
        elif cause is Cause.AUTH_REJECTED:
            self._finish(turn, at_ns, Outcome.INCOMPLETE, cause, detail)
        else:
            self._back_off(turn, at_ns, detail)

    def _back_off(self, turn: OpenTurn, at_ns: int, detail: str) -> None:
        plan = self._reconnect
        if self._attempt >= plan.attempts:
            cause, words = Cause.LOST_RESUME, f"not reconnected after {self._attempt} attempts"
            opened = turn.connection is not None and turn.connection.connected_ns is not None
            if opened and not turn.heard:
                # There was nothing to resume.  A server drops a credential that it cannot read so.
                cause, words = Cause.CONNECT_FAILED, f"dropped {self._attempt + 1} times, unheard"
            self._finish(turn, at_ns, Outcome.INCOMPLETE, cause, f"{words}: {detail}")
            return
        delay = plan.base_s
        if plan.policy == "exponential":
            delay = self._rng.uniform(0, min(plan.cap_s, plan.base_s * 2.0**self._attempt))
        self._attempt += 1
        self._ready = False
        self._decoder = None
        self._commands.append(Drop())
        self._resume_at_ns = at_ns + seconds_ns(delay)
        self._enter(Phase.BACKING_OFF, at_ns)

    # events

    def _on_opened(self, event: Opened, at_ns: int) -> None:
        if self._turn is not None and self.phase is Phase.CONNECTING:
            self._opened(self._turn, at_ns)

    def _on_login(self, event: Login, at_ns: int) -> None:
        turn = self._turn
        if turn is None or self.phase is not Phase.LOGGING_IN:
            self._strays += 1
        elif not event.ok:
            self._no_connection(turn, at_ns, Cause.AUTH_REJECTED, event.detail)
        else:
            if turn.connection is not None:
                turn.connection.authenticated_ns = at_ns
            if not turn.asked_ns:
                turn.record.timeline.mark(Milestone.AUTHENTICATED, at_ns)
            self._usable(turn, at_ns)

    def _on_started(self, event: Started, at_ns: int) -> None:
        turn = self._listening(at_ns)
        if turn is not None:
            turn.first_step(at_ns)

    def _on_progress(self, event: Progress, at_ns: int) -> None:
        turn = self._listening(at_ns)
        if turn is not None:
            turn.progress(event.kind, at_ns)

    def _on_answer(self, event: Answer, at_ns: int) -> None:
        turn = self._listening(at_ns)
        if turn is not None:
            turn.chunk(event.text, at_ns)

    def _on_prompt(self, event: Prompt, at_ns: int) -> None:
        turn = self._listening(at_ns)
        if turn is None:
            return
        if event.kind is PromptKind.NOTIFICATION:
            turn.notify(at_ns)
            return
        deliveries = turn.ask_human(event, at_ns)
        if event.kind is PromptKind.OAUTH_CONSENT:
            self._wants_consent(turn, at_ns)
            return
        turn.reply_plan = plan = self._habits.reply(event, deliveries)
        if plan.delay_ns is None and plan.drop_after_ns is None:
            turn.note("prompt_ignored")
            turn.ignores = True
            self._go_on(turn, at_ns)
        else:
            self._enter(Phase.HUMAN, at_ns)

    def _wants_consent(self, turn: OpenTurn, at_ns: int) -> None:
        plan = self._habits.consent()
        if plan.do == "fail":
            words = "oauth consent wanted, which these analysts do not give"
            self._finish(turn, at_ns, Outcome.FAILED, Cause.AUTH_REJECTED, words)
        elif plan.do == "skip":
            turn.note("consent_skipped")
            turn.ignores = True
            self._go_on(turn, at_ns)
        else:
            turn.reply_plan = ReplyPlan(plan.delay_ns, plan.do)
            self._enter(Phase.HUMAN, at_ns)

    def _go_on(self, turn: OpenTurn, at_ns: int) -> None:
        """The analyst holds nothing up: wait for the agent."""
        turn.last_event_ns = max(turn.last_event_ns, at_ns)
        if turn.poll_key:
            self._poll_later(turn, at_ns)
        else:
            self._enter(Phase.WORKING, at_ns)

    def _on_pending(self, event: Pending, at_ns: int) -> None:
        turn = self._listening(at_ns)
        if turn is not None and not self._is_socket:
            turn.poll_key, turn.poll_ns = event.key, event.after_ns
            turn.record.execution = event.execution or turn.record.execution
            if self.phase is not Phase.HUMAN:
                self._poll_later(turn, at_ns)

    def _poll_later(self, turn: OpenTurn, at_ns: int) -> None:
        turn.poll_at_ns = at_ns + turn.poll_ns
        self._enter(Phase.POLLING, at_ns)

    def _on_completed(self, event: Completed, at_ns: int) -> None:
        turn = self._listening(at_ns)
        if turn is None:
            return
        if turn.failure is not None:
            self._fail(turn, at_ns, turn.failure, keep=True)
        elif foreign := turn.foreign_tag():
            detail = f"the answer carries the tag {foreign!r} of another turn"
            self._finish(turn, at_ns, Outcome.FAILED, Cause.ISOLATION, detail, keep=True)
        else:
            self._history.append((turn.ask.text, turn.answer))
            self._finish(turn, at_ns, Outcome.COMPLETED, None, "", keep=True)

    def _on_failed(self, event: Failed, at_ns: int) -> None:
        turn = self._turn
        if turn is None or turn.verdict is not None:
            self._strays += 1
        elif self.phase in (Phase.CONNECTING, Phase.LOGGING_IN):
            self._no_connection(turn, at_ns, event.cause, event.detail)
        elif event.cause is Cause.EMPTY_ANSWER and turn.record.chunks:
            # The decoder of a resumed socket did not see what was said on the old one.
            self._on_completed(Completed(), at_ns)
        else:
            cut = event.final and event.cause is Cause.STREAM_CUT
            turn.failure = turn.failure or (turn.reply_failure if cut else None) or event
            if not event.final:
                self._listening(at_ns)
            elif cut:
                turn.lose(at_ns, None)
                self._fail(turn, at_ns, turn.failure, keep=False)
            else:
                self._fail(turn, at_ns, turn.failure, keep=True)

    def _on_lost(self, event: Lost, at_ns: int) -> None:
        self._ready = False
        turn = self._turn
        if turn is not None and turn.verdict is None:
            self._lose(turn, at_ns, event)
        elif turn is None and self._idle_loss is None:
            self._idle_loss = LossRecord(at_ns, "idle", code=event.code)

    def _on_notice(self, event: Notice, at_ns: int) -> None:
        turn = self._turn
        if turn is None:
            # A trace id is sent behind the end of its turn, by rule.
            self._strays += event.kind != "trace"
        elif event.kind == "headers":
            turn.record.status = int(event.detail)
        elif event.kind == "encoding":
            turn.record.content_encoding = event.detail
        else:
            turn.note(event.kind)

    def _listening(self, at_ns: int) -> OpenTurn | None:
        """The turn, which showed a sign of life; None when none is listening: a stray event."""
        turn, phase = self._turn, self.phase
        if turn is None or not (phase is _WORKING or phase in _LISTENING):
            self._strays += 1
            return None
        turn.hear(at_ns)
        if phase is _WAITING or phase is _RESUMING:
            self._attempt = 0
            self._enter(_WORKING, at_ns)
        return turn

    # deadlines

    def _phase_due(self, turn: OpenTurn) -> int:
        limits = self._deadlines
        match self.phase:
            case Phase.CONNECTING:
                return self._entered_ns + seconds_ns(limits.connect_s)
            case Phase.LOGGING_IN:
                return self._entered_ns + seconds_ns(limits.auth_s)
            case Phase.WAITING:
                return self._entered_ns + seconds_ns(limits.first_event_s)
            case Phase.RESUMING:
                return self._entered_ns + seconds_ns(limits.resume_s)
            case Phase.WORKING:
                return turn.last_event_ns + seconds_ns(limits.silence_s)
            case Phase.BACKING_OFF:
                return self._resume_at_ns
            case Phase.POLLING if turn.poll_at_ns:
                return turn.poll_at_ns
            case Phase.POLLING:
                return self._entered_ns + seconds_ns(limits.silence_s)
            case Phase.SETTLING:
                return self._settle_at_ns
            case Phase.HUMAN:
                return self._entered_ns + _human_delay_ns(turn)
            case Phase.IDLE:
                raise GeneratorError("an idle conversation has no deadline")

    def _turn_due(self, turn: OpenTurn) -> int:
        limit = seconds_ns(self._deadlines.turn_s)
        if turn.patience_ns is not None:
            limit = min(limit, turn.patience_ns)
        if turn.interrupt_ns is not None:
            limit = min(limit, turn.interrupt_ns)
        return turn.started_ns + turn.paused_until_ns(self._entered_ns) + limit

    def _give_up(self, turn: OpenTurn, now_ns: int) -> None:
        patience, limit = turn.patience_ns, self._deadlines.turn_s
        if turn.interrupt_ns is not None and now_ns >= self._turn_due(turn):
            patience = min(turn.interrupt_ns, turn.interrupt_ns if patience is None else patience)
            if patience == turn.interrupt_ns:
                turn.note("interrupted")
                detail = f"the analyst asked something else after {patience / NS_PER_S:.4g} s"
                words = (Outcome.ABANDONED, Cause.PATIENCE, detail)
                self._finish(turn, now_ns, *words, keep=self._ready)
                return
        if turn.failure is None and patience is not None and patience < seconds_ns(limit):
            detail = f"the analyst left after {patience / NS_PER_S:.4g} s"
            self._finish(turn, now_ns, Outcome.ABANDONED, Cause.PATIENCE, detail)
        else:
            self._stall(turn, now_ns, f"no end within turn_s = {limit:g} s")

    def _stall(self, turn: OpenTurn, now_ns: int, detail: str) -> None:
        """Nothing more will come; a failure that was heard of says why."""
        failure = turn.failure or turn.reply_failure
        if failure is not None:
            self._fail(turn, now_ns, failure, keep=False)
        else:
            self._finish(turn, now_ns, Outcome.TIMED_OUT, Cause.STALLED, detail)

    def _connect_overdue(self, turn: OpenTurn, now_ns: int) -> None:
        detail = f"no connection within connect_s = {self._deadlines.connect_s:g} s"
        self._no_connection(turn, now_ns, Cause.CONNECT_FAILED, detail)

    def _login_overdue(self, turn: OpenTurn, now_ns: int) -> None:
        detail = f"no answer to auth_message within auth_s = {self._deadlines.auth_s:g} s"
        self._no_connection(turn, now_ns, Cause.AUTH_REJECTED, detail)

    def _first_event_overdue(self, turn: OpenTurn, now_ns: int) -> None:
        limit = self._deadlines.first_event_s
        self._stall(turn, now_ns, f"no event within first_event_s = {limit:g} s")

    def _silence_overdue(self, turn: OpenTurn, now_ns: int) -> None:
        self._stall(turn, now_ns, f"silent for silence_s = {self._deadlines.silence_s:g} s")

    def _resume_overdue(self, turn: OpenTurn, now_ns: int) -> None:
        limit = self._deadlines.resume_s
        detail = f"reconnected, but nothing came within resume_s = {limit:g} s"
        self._finish(turn, now_ns, Outcome.INCOMPLETE, Cause.LOST_RESUME, detail)

    def _backed_off(self, turn: OpenTurn, now_ns: int) -> None:
        self._connect(turn, now_ns, resume=True)

    def _human_done(self, turn: OpenTurn, now_ns: int) -> None:
        """The analyst has thought: reply, or lose the connection first if the persona says so."""
        plan, prompt = turn.reply_plan, turn.prompt
        if plan is None or prompt is None:
            raise GeneratorError("the analyst is at a prompt that is not open")
        if plan.drop_after_ns is not None:
            turn.note("dropped_at_prompt")
            self._lose(turn, now_ns, Lost("the analyst lost the connection at the prompt"))
            return
        turn.replying = None
        if prompt.kind is PromptKind.OAUTH_CONSENT:
            turn.reply_written(now_ns)
            self._commands.append(Visit(prompt.key, deny=plan.value == "deny"))
        else:
            self._reply(turn, Reply(prompt, plan.value, plan.shape), plan.twice)
        if turn.verdict is None:
            self._go_on(turn, now_ns)
        else:
            self._settle_until(now_ns)

    def _reply(self, turn: OpenTurn, reply: Reply, twice: bool) -> None:
        outbound = self.dialect.reply(reply, turn.ask, self.identity)
        if isinstance(outbound, str):
            self._unflushed.append(OpenTurn.reply_written)
            self._commands.extend([Send(outbound)] * (2 if twice else 1))
        else:
            turn.again = outbound if twice else None
            self._commands.append(Post(Errand.REPLY, outbound))

    # requests beside the turn's

    def _replied(self, turn: OpenTurn, status: int, body: str, at_ns: int) -> None:
        if turn.replying is None:
            return
        turn.replying.reply_status = status
        turn.replying.reply_done_ns = at_ns
        event = self.dialect.replied(status, body)
        if isinstance(event, Failed):
            turn.reply_failure = turn.reply_failure or event
        if turn.again is not None:
            self._commands.append(Post(Errand.AGAIN, turn.again))
        elif turn.verdict is not None:
            self._close(turn, at_ns)

    def _reply_failed(self, turn: OpenTurn, at_ns: int, cause: Cause, detail: str) -> None:
        """Nobody will answer this prompt, so the turn ends.

        Unless the agent has gone on since: then only the acknowledgement is lost.
        """
        turn.again = None
        if turn.replying is not None and turn.replying.next_event_ns is not None:
            turn.note("reply_unacknowledged")
        else:
            words = f"reply not delivered: {detail}"
            self._finish(turn, at_ns, Outcome.FAILED, cause, words)

    def _replied_again(self, turn: OpenTurn, status: int, body: str, at_ns: int) -> None:
        turn.again = None
        if turn.replying is not None:
            turn.replying.again_status = status
        if turn.verdict is not None:
            self._close(turn, at_ns)

    def _again_failed(self, turn: OpenTurn, at_ns: int, cause: Cause, detail: str) -> None:
        turn.again = None
        turn.note("second_reply_failed")
        if turn.verdict is not None:
            self._close(turn, at_ns)

    def _ask_after(self, turn: OpenTurn, now_ns: int) -> None:
        """It is time to ask how the turn stands, or the answer to that is overdue."""
        if not turn.poll_at_ns:
            limit = self._deadlines.silence_s
            self._stall(turn, now_ns, f"no answer to a poll for silence_s = {limit:g} s")
            return
        turn.poll_at_ns = 0
        turn.record.polls += 1
        request = self.dialect.poll(turn.poll_key, turn.ask, self.identity)
        self._commands.append(Post(Errand.POLL, request))
        self._enter(Phase.POLLING, now_ns)

    def _polled(self, turn: OpenTurn, status: int, body: str, at_ns: int) -> None:
        decoder = self._decoder
        if decoder is None or self.phase is not Phase.POLLING:
            return
        turn.poll_failures = 0
        turn.record.bytes += len(body)
        for event in decoder.polled(status, body):
            turn.record.events += 1
            _HANDLERS[event.__class__](self, event, at_ns)

    def _poll_failed(self, turn: OpenTurn, at_ns: int, cause: Cause, detail: str) -> None:
        """The run may live on: only after some failures in a row is it given up."""
        if self.phase is not Phase.POLLING:
            return
        turn.note("poll_failed")
        turn.poll_failures += 1
        if turn.poll_failures < _POLL_FAILURES:
            self._poll_later(turn, at_ns)
        else:
            words = f"{turn.poll_failures} polls in a row failed: {detail}"
            self._finish(turn, at_ns, Outcome.INCOMPLETE, cause, words)

    def _reconciled(self, turn: OpenTurn, status: int, body: str, at_ns: int) -> None:
        turn.record.execution_state = self._redacted(self.dialect.state(status, body))
        self._close(turn, at_ns)

    def _reconcile_failed(self, turn: OpenTurn, at_ns: int, cause: Cause, detail: str) -> None:
        turn.record.execution_state = "unreachable"
        self._close(turn, at_ns)

    # the end

    def _fail(self, turn: OpenTurn, at_ns: int, failure: Failed, *, keep: bool) -> None:
        self._finish(turn, at_ns, failure.outcome, failure.cause, failure.detail, keep=keep)

    def _finish(
        self,
        turn: OpenTurn,
        at_ns: int,
        outcome: Outcome,
        cause: Cause | None,
        detail: str,
        *,
        keep: bool = False,
    ) -> None:
        """The turn has ended; a last request may keep it open for a while."""
        if turn.verdict is not None:
            self._close(turn, at_ns)
            return
        cut = cause is Cause.STREAM_CUT and not turn.poll_key
        failure = turn.failure or turn.reply_failure
        if failure is not None and outcome is Outcome.INCOMPLETE:
            outcome, cause, detail = failure.outcome, failure.cause, failure.detail
        turn.verdict = Verdict(at_ns, outcome, cause, detail, keep)
        if self._is_socket:
            self._close(turn, at_ns)
            return
        plan, execution = turn.reply_plan, turn.record.execution
        if self.phase is Phase.HUMAN and plan is not None and plan.insist:
            due = self._entered_ns + _human_delay_ns(turn)
            self._settle_at_ns = due
            self._enter(Phase.SETTLING, at_ns)
        elif turn.again is not None and turn.replying is not None:
            self._settle_until(at_ns)
        elif (
            cut
            and execution
            and (asked := self.dialect.reconcile(execution, turn.ask, self.identity))
        ):
            self._commands.append(Post(Errand.RECONCILE, asked))
            self._settle_until(at_ns)
        else:
            self._close(turn, at_ns)

    def _settle_until(self, at_ns: int) -> None:
        """A last request is under way; its answer is not waited for very long."""
        self._settle_at_ns = at_ns + seconds_ns(self._deadlines.auth_s)
        self._enter(Phase.SETTLING, at_ns)

    def _settle_overdue(self, turn: OpenTurn, now_ns: int) -> None:
        pause = turn.pause
        late = pause is not None and not pause.replied and turn.replying is None
        if late and turn.reply_plan is not None and turn.reply_plan.insist and not turn.insisted:
            turn.insisted = True
            self._human_done(turn, now_ns)
        else:
            self._close(turn, now_ns)

    def _close(self, turn: OpenTurn, at_ns: int) -> None:
        """Give the record of a turn that has its verdict."""
        verdict = turn.verdict
        if verdict is None:
            raise GeneratorError("a turn was closed without a verdict")
        keep = verdict.keep
        detail = self._redacted(verdict.detail)[:_DETAIL_LIMIT]
        record = turn.close(verdict._replace(detail=detail))
        if record.tag_seen is not None:
            record.tag_seen = self._redacted(record.tag_seen)
        if self._keep_answers:
            record.answer = self._redacted(turn.answer)
        self._ready = self._ready and keep
        self._turn = None
        self._unflushed.clear()
        self._enter(Phase.IDLE, at_ns)
        self._commands.append(Finish(record, keep))

    def _redacted(self, text: str) -> str:
        return redacted(text, self.identity)

    def _new_record(self, turn: str, at_ns: int, scheduled_ns: int) -> TurnRecord:
        self._number += 1
        labels = self._labels
        record = TurnRecord(
            turn=turn,
            user=labels.user,
            conversation=self.id,
            scenario=labels.scenario,
            dialect=self.dialect.name,
            route=self.dialect.route,
            worker=labels.worker,
            timeline=Timeline(),
            analyst_group=labels.group,
            number=self._number,
            late_events=self._strays,
        )
        record.timeline.mark(Milestone.STARTED, at_ns)
        record.timeline.mark(Milestone.SCHEDULED, scheduled_ns)
        self._strays = 0
        if self._idle_loss is not None:
            record.losses.append(self._idle_loss)
            self._idle_loss = None
        return record

    def _enter(self, phase: Phase, at_ns: int) -> None:
        if phase is not self.phase and phase not in MOVES[self.phase]:
            raise GeneratorError(f"illegal move from {self.phase.value!r} to {phase.value!r}")
        self.phase = phase
        self._entered_ns = at_ns
        due = self.due_ns()
        if due is not None:
            self._commands.append(Wait(due))


def redacted(text: str, identity: Identity) -> str:
    """``text`` without the secrets of ``identity``."""
    for secret in identity.secrets:
        text = _without(text, secret)
    return text


def _without(text: str, secret: str) -> str:
    """``text`` with a mark in place of ``secret``, or of as much of it as a cut has left."""
    head, parts, begin = secret[:_TELLING], [], 0
    while head and (at := text.find(head, begin)) >= 0:
        parts.append(text[begin:at])
        begin = at + len(head)
        while begin < len(text) and text[begin] == secret[begin - at : begin - at + 1]:
            begin += 1
    return REDACTED.join([*parts, text[begin:]])


def _question_written(turn: OpenTurn, at_ns: int) -> None:
    turn.record.timeline.mark(Milestone.SENT, at_ns)


def _human_delay_ns(turn: OpenTurn) -> int:
    plan = turn.reply_plan
    delay = None
    if plan is not None:
        delay = plan.delay_ns if plan.drop_after_ns is None else plan.drop_after_ns
    if delay is None:
        raise GeneratorError("the analyst is at a prompt that is not open")
    return delay


_HANDLERS: dict[type, Callable[[Conversation, Any, int], None]] = {
    Opened: Conversation._on_opened,
    Login: Conversation._on_login,
    Started: Conversation._on_started,
    Progress: Conversation._on_progress,
    Answer: Conversation._on_answer,
    Prompt: Conversation._on_prompt,
    Pending: Conversation._on_pending,
    Completed: Conversation._on_completed,
    Failed: Conversation._on_failed,
    Lost: Conversation._on_lost,
    Notice: Conversation._on_notice,
}
"""By the event's class: one dict look-up an event, on the hot path."""

_OVERDUE: dict[Phase, Callable[[Conversation, OpenTurn, int], None]] = {
    Phase.CONNECTING: Conversation._connect_overdue,
    Phase.LOGGING_IN: Conversation._login_overdue,
    Phase.WAITING: Conversation._first_event_overdue,
    Phase.WORKING: Conversation._silence_overdue,
    Phase.HUMAN: Conversation._human_done,
    Phase.POLLING: Conversation._ask_after,
    Phase.BACKING_OFF: Conversation._backed_off,
    Phase.RESUMING: Conversation._resume_overdue,
    Phase.SETTLING: Conversation._settle_overdue,
}

_POSTED: dict[Errand, Callable[[Conversation, OpenTurn, int, str, int], None]] = {
    Errand.REPLY: Conversation._replied,
    Errand.AGAIN: Conversation._replied_again,
    Errand.POLL: Conversation._polled,
    Errand.RECONCILE: Conversation._reconciled,
}

_POST_FAILED: dict[Errand, Callable[[Conversation, OpenTurn, int, Cause, str], None]] = {
    Errand.REPLY: Conversation._reply_failed,
    Errand.AGAIN: Conversation._again_failed,
    Errand.POLL: Conversation._poll_failed,
    Errand.RECONCILE: Conversation._reconcile_failed,
}
