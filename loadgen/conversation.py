"""The brain: an analyst's dialogue as a sans-I/O state machine, one turn at a time.

The owner (the driver) tells it what happened and when; it answers with commands that the owner
carries out.  It opens no socket and reads no clock: times are arguments, in monotonic ns.

Obligations of the owner:

- after every call, carry out `take_commands` in order while `has_commands`;
- call `flushed` once all bytes of a `Send`, and `post_written` once those of a `Post`, have been
  handed to the kernel;
- keep one timer, at the earliest `Wait`, and call `tick` when it fires;
- after `Drop` and `Reconnect`, forget the old connection: nothing of it may be fed in any more.

Legal moves are the table `loadgen.phase.MOVES`.  An illegal one is the generator's fault and raises
`GeneratorError`; what a peer or the network does is never an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loadgen.clock import NS_PER_S
from loadgen.commands import (
    Errand,
    Post,
    Wait,
)
from loadgen.dialects.contract import (
    Ask,
)
from loadgen.errors import GeneratorError
from loadgen.events import (
    Failed,
)
from loadgen.hearing import HANDLERS, Hearing
from loadgen.openturn import OpenTurn, Verdict
from loadgen.phase import UNHURRIED, Phase
from loadgen.plan import seconds_ns
from loadgen.turn import Cause, Outcome
from loadgen.wire.frame import AnyFrame

_WORKING = Phase.WORKING  # a module global: an attribute of the enum costs more, at every event

_POLL_FAILURES = 3
"""So many polls in a row that find no server end the turn."""


class Conversation(Hearing):
    """One analyst's dialogue with the target over one dialect."""

    # what the analyst does, and what happens to it

    def restart(self, conversation: str) -> None:
        """Begin a new dialogue: another id, no history; a socket stays, if the dialect's sockets
        are not those of one conversation.
        """
        if self._turn is not None:
            raise GeneratorError("a conversation cannot be restarted while a turn is under way")
        self.leave()
        self.id = conversation
        self._history.clear()
        self._number = 0
        self._lasting.clear()
        self._ready = self._ready and not self.dialect.one_conversation

    def leave(self) -> None:
        """The dialogue is over: the server is told, where its protocol wants that."""
        if self._number:
            request = self.dialect.farewell(self._opening(resume=False))
            if request is not None:
                self._commands.append(Post(Errand.FAREWELL, request))

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
        self._turn.absence = self._habits.absence()
        self._turn.leaves_at = self._turn.absence.leaves_at
        self._attempt = 0
        if at_hand and self.dialect.preparations(self._opening(resume=False)):
            at_hand = False
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

    def flushed(self, at_ns: int) -> None:
        """All bytes queued so far are with the kernel."""
        waiting, self._unflushed = self._unflushed, []
        if self._turn is not None:
            for call in waiting:
                call(self._turn, at_ns)

    def receive_usual(self, message: bytes, at_ns: int, size: int, kernel: bool) -> bool:
        """A read that was one ``message`` of the commonest form (`Link.usual`).

        False if it is more than one more piece of answer: then it must be given to `receive`.
        """
        turn, decoder = self._turn, self._decoder
        if (
            turn is None
            or decoder is None
            or self.phase is not _WORKING
            or turn.pause is not None
            or turn.loss is not None
            or turn.leaves_at
            or at_ns < turn.asked_ns
        ):
            return False
        text = decoder.usual(message)
        if text is None:
            return False
        turn.usual_chunk(text, at_ns, size, kernel)
        return True

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
                HANDLERS[event.__class__](self, event, at_ns)
        if turn is not None and burst:
            turn.burst(burst)

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

    def visited(self, status: int, problem: str, at_ns: int, location: str = "") -> None:
        """The analyst has been where a `Visit` led it, in the end to ``location``; ``problem`` says
        why it did not arrive.
        """
        turn = self._turn
        if turn is None or turn.replying is None or turn.verdict is not None:
            return
        turn.replying.reply_status = status or None
        turn.replying.reply_done_ns = at_ns
        if problem:
            words = f"oauth consent: {problem}"
            self._finish(turn, at_ns, Outcome.FAILED, Cause.AUTH_REJECTED, words)
            return
        self.dialect.visited(location)
        if self.phase is Phase.AWAY:
            self._connect(turn, at_ns, resume=True)

    def tick(self, now_ns: int) -> None:
        """The timer fired: act on what is due, wait for what is not."""
        turn = self._turn
        due = self.due_ns()
        if turn is None or due is None:
            return
        if now_ns < due:
            self._commands.append(Wait(due))
        elif self.phase not in UNHURRIED and now_ns >= self._turn_due(turn):
            self._give_up(turn, now_ns)
        else:
            _OVERDUE[self.phase](self, turn, now_ns)

    # deadlines that passed

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

    def _prepare_overdue(self, turn: OpenTurn, now_ns: int) -> None:
        name = self._preparation.name if self._preparation is not None else "preparation"
        detail = f"no answer to the request for {name} within auth_s = {self._deadlines.auth_s:g} s"
        self._no_connection(turn, now_ns, Cause.CONNECT_FAILED, detail)

    def _first_event_overdue(self, turn: OpenTurn, now_ns: int) -> None:
        limit = self._deadlines.first_event_s
        self._stall(turn, now_ns, f"no event within first_event_s = {limit:g} s")

    def _silence_overdue(self, turn: OpenTurn, now_ns: int) -> None:
        if turn.ignores and turn.expiry_ns:
            limit = self._deadlines.prompt_grace_s
            words = f"nothing came within prompt_grace_s = {limit:g} s after a prompt timed out"
            self._finish(turn, now_ns, Outcome.TIMED_OUT, Cause.WITHHELD, words)
            return
        self._stall(turn, now_ns, f"silent for silence_s = {self._deadlines.silence_s:g} s")

    def _away_overdue(self, turn: OpenTurn, now_ns: int) -> None:
        limit = self._deadlines.silence_s
        self._stall(turn, now_ns, f"not back from a login within silence_s = {limit:g} s")

    def _resume_overdue(self, turn: OpenTurn, now_ns: int) -> None:
        limit = self._deadlines.resume_s
        detail = f"reconnected, but nothing came within resume_s = {limit:g} s"
        self._finish(turn, now_ns, Outcome.INCOMPLETE, Cause.LOST_RESUME, detail)

    def _backed_off(self, turn: OpenTurn, now_ns: int) -> None:
        self._connect(turn, now_ns, resume=True)

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

    def _settle_overdue(self, turn: OpenTurn, now_ns: int) -> None:
        if turn.quitting:
            self._quitted(turn, "unanswered", now_ns)
            return
        pause = turn.pause
        late = pause is not None and not pause.replied and turn.replying is None
        if late and turn.reply_plan is not None and turn.reply_plan.insist and not turn.insisted:
            turn.insisted = True
            self._human_done(turn, now_ns)
        else:
            self._close(turn, now_ns)

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

    def _polled(self, turn: OpenTurn, status: int, body: str, at_ns: int) -> None:
        decoder = self._decoder
        if decoder is None or self.phase is not Phase.POLLING:
            return
        turn.poll_failures = 0
        turn.record.bytes += len(body)
        for event in decoder.polled(status, body):
            turn.record.events += 1
            HANDLERS[event.__class__](self, event, at_ns)

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

    def _farewell_said(self, turn: OpenTurn, status: int, body: str, at_ns: int) -> None:
        """The dialogue before this one was ended on the server."""

    def _farewell_failed(self, turn: OpenTurn, at_ns: int, cause: Cause, detail: str) -> None:
        turn.note("farewell_failed")


_OVERDUE: dict[Phase, Callable[[Conversation, OpenTurn, int], None]] = {
    Phase.PREPARING: Conversation._prepare_overdue,
    Phase.CONNECTING: Conversation._connect_overdue,
    Phase.LOGGING_IN: Conversation._login_overdue,
    Phase.WAITING: Conversation._first_event_overdue,
    Phase.WORKING: Conversation._silence_overdue,
    Phase.HUMAN: Conversation._human_done,
    Phase.AWAY: Conversation._away_overdue,
    Phase.POLLING: Conversation._ask_after,
    Phase.BACKING_OFF: Conversation._backed_off,
    Phase.RESUMING: Conversation._resume_overdue,
    Phase.SETTLING: Conversation._settle_overdue,
}

_POSTED: dict[Errand, Callable[[Conversation, OpenTurn, int, str, int], None]] = {
    Errand.PREPARE: Conversation._prepared,
    Errand.REPLY: Conversation._replied,
    Errand.AGAIN: Conversation._replied_again,
    Errand.POLL: Conversation._polled,
    Errand.RECONCILE: Conversation._reconciled,
    Errand.FAREWELL: Conversation._farewell_said,
}

_POST_FAILED: dict[Errand, Callable[[Conversation, OpenTurn, int, Cause, str], None]] = {
    Errand.PREPARE: Conversation._prepare_failed,
    Errand.REPLY: Conversation._reply_failed,
    Errand.AGAIN: Conversation._again_failed,
    Errand.POLL: Conversation._poll_failed,
    Errand.RECONCILE: Conversation._reconcile_failed,
    Errand.FAREWELL: Conversation._farewell_failed,
}
