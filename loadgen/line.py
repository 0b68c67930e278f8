"""How a dialogue gets its connection, loses it, and comes back to its turn.

What a connection needs is asked for first (`Preparation`), then it is opened, then the analyst logs
in where the dialect has a message for that; only then is anything else said on it.
"""

from __future__ import annotations

from collections.abc import Sequence

from loadgen.commands import (
    Drop,
    Errand,
    Post,
    Reconnect,
    Send,
)
from loadgen.dialects.contract import (
    Opening,
)
from loadgen.dialogue import Dialogue
from loadgen.errors import GeneratorError
from loadgen.events import (
    Failed,
    Lost,
)
from loadgen.openturn import OpenTurn
from loadgen.phase import Phase
from loadgen.plan import seconds_ns
from loadgen.turn import Cause, LossRecord, Milestone, Outcome
from loadgen.wire.frame import AnyFrame

_NORMAL_CLOSURE = 1000


class Line(Dialogue):
    """A dialogue and its connection."""

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

    def lost(self, at_ns: int, answered: bool = True) -> None:
        """The byte stream ended, all its frames received.

        ``answered`` is false if the connection was reused and closed before any byte of this
        answer: the server's keep-alive ran out in the instant of our request, and the question is
        put once more on a fresh connection.
        """
        turn = self._turn
        self._ready = False
        if turn is None:
            self._lose_idle(at_ns, None)
        elif not answered and self.phase is Phase.WAITING and not turn.retried:
            self._ask_anew(turn, at_ns)
        elif turn.verdict is None and not turn.poll_key:
            self._lose(turn, at_ns, Lost("connection closed"))

    def _opening(self, *, resume: bool) -> Opening:
        return Opening(self.identity, self.id, resume, self._lasting | self._grants)

    def _connect(self, turn: OpenTurn, at_ns: int, *, resume: bool) -> None:
        self._ready = False
        self._decoder = None
        self._unflushed.clear()
        self._grants.clear()
        self._resuming = resume
        self._prepare(turn, at_ns)

    def _prepare(self, turn: OpenTurn, at_ns: int) -> None:
        """Ask for the next thing that the connection needs; open it when it has all."""
        opening = self._opening(resume=self._resuming)
        needed = self.dialect.preparations(opening)
        if needed:
            self._preparation = needed[0]
            turn.prepare(needed[0].name, at_ns)
            self._commands.append(Post(Errand.PREPARE, needed[0].request))
            self._enter(Phase.PREPARING, at_ns)
            return
        self._preparation = None
        turn.connect(at_ns, self._resuming)
        upgrade = self.dialect.upgrade(opening) if self._is_socket else None
        self._commands.append(Reconnect(upgrade, orderly=not self._resuming))
        self._enter(Phase.CONNECTING, at_ns)

    def _prepared(self, turn: OpenTurn, status: int, body: str, at_ns: int) -> None:
        wanted = self._preparation
        if wanted is None or self.phase is not Phase.PREPARING:
            return
        grant = self.dialect.granted(wanted.name, status, body)
        if isinstance(grant, Failed):
            turn.prepared(status, None)
            self._no_connection(turn, at_ns, grant.cause, grant.detail)
            return
        turn.prepared(status, at_ns)
        if wanted.secret:
            self._secrets = (grant,)
        (self._lasting if wanted.lasting else self._grants)[wanted.name] = grant
        self._prepare(turn, at_ns)

    def _prepare_failed(self, turn: OpenTurn, at_ns: int, cause: Cause, detail: str) -> None:
        if self._preparation is not None and self.phase is Phase.PREPARING:
            name = self._preparation.name
            self._no_connection(turn, at_ns, cause, f"{name} not granted: {detail}")

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

    def _lose(self, turn: OpenTurn, at_ns: int, lost: Lost) -> None:
        if self.phase in (Phase.PREPARING, Phase.AWAY):
            return  # nothing is open; what is under way travels on a connection of its own
        if self.phase in (Phase.CONNECTING, Phase.LOGGING_IN):
            cause = lost.cause or Cause.CONNECT_FAILED
            self._no_connection(turn, at_ns, cause, lost.detail or "connection closed")
        elif self.phase is not Phase.BACKING_OFF:
            turn.lose(at_ns, lost.code)
            resumable = self.dialect.resumes and turn.failure is None and lost.cause is None
            if self._asks_again(turn, lost):
                turn.ask_again()
                self._connect(turn, at_ns, resume=False)
            elif lost.cause is Cause.AUTH_REJECTED:
                self._finish(turn, at_ns, Outcome.REFUSED, lost.cause, lost.detail)
            elif not resumable or self._reconnect.policy == "none":
                cause = lost.cause or Cause.STREAM_CUT
                self._finish(turn, at_ns, Outcome.INCOMPLETE, cause, lost.detail)
            else:
                self._back_off(turn, at_ns, lost.detail)

    def _lose_idle(self, at_ns: int, code: int | None) -> None:
        """A socket ended between two turns; one of a single turn had to."""
        if self._is_socket and self._idle_loss is None and not self.dialect.one_turn:
            self._idle_loss = LossRecord(at_ns, "idle", code=code)

    def _asks_again(self, turn: OpenTurn, lost: Lost) -> bool:
        """Whether the question is put once more, at once, as the dialect's clients do."""
        again = turn.attempts < self.dialect.reasks
        return again and lost.code != _NORMAL_CLOSURE and lost.cause is not Cause.AUTH_REJECTED

    def _no_connection(self, turn: OpenTurn, at_ns: int, cause: Cause, detail: str) -> None:
        opening = self.phase is not Phase.PREPARING
        if turn.connection is not None and opening:
            turn.connection.failure = cause.value
        if opening and turn.attempts < self.dialect.reasks:
            turn.ask_again()
            self._connect(turn, at_ns, resume=False)
        elif not turn.asked_ns and not turn.record.asked_again:
            self._finish(turn, at_ns, Outcome.REFUSED, cause, detail)
        elif cause is Cause.AUTH_REJECTED or not self.dialect.resumes:
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
        delay = plan.wait_s(self._attempt, self._rng)
        self._attempt += 1
        self._ready = False
        self._decoder = None
        self._commands.append(Drop())
        self._resume_at_ns = at_ns + seconds_ns(delay)
        self._enter(Phase.BACKING_OFF, at_ns)


def _question_written(turn: OpenTurn, at_ns: int) -> None:
    turn.record.timeline.mark(Milestone.SENT, at_ns)
