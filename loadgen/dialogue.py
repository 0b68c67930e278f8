"""What stands of an analyst's dialogue: its turn, its phase, its deadlines, and how a turn ends.

The base of `loadgen.conversation`; every move goes through `_enter`, every end through `_finish`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from loadgen.clock import NS_PER_S
from loadgen.commands import (
    Command,
    Errand,
    Finish,
    Parting,
    Post,
    Send,
    Wait,
)
from loadgen.dialects.contract import (
    Decoder,
    Dialect,
    Identity,
    Preparation,
    Wire,
)
from loadgen.errors import GeneratorError
from loadgen.events import (
    Failed,
)
from loadgen.openturn import OpenTurn, Verdict
from loadgen.persona import Habits
from loadgen.phase import MOVES, UNHURRIED, Phase, Standing, standing
from loadgen.plan import Deadlines, seconds_ns
from loadgen.plan import Reconnect as ReconnectPlan
from loadgen.redaction import redacted
from loadgen.turn import Cause, LossRecord, Milestone, Outcome, Timeline, TurnRecord

_QUIT_NS = NS_PER_S
"""How long an analyst that has said that it quits waits for what the server makes of it."""

_DETAIL_LIMIT = 500


@dataclass(frozen=True, slots=True)
class Labels:
    """What every record of an analyst carries."""

    user: str
    scenario: str
    worker: str
    group: str
    side: str = ""


class Dialogue:
    """The state of one analyst's dialogue over one dialect."""

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
        self._resuming = False
        self._preparation: Preparation | None = None
        self._grants: dict[str, str] = {}
        self._lasting: dict[str, str] = {}
        self._secrets: tuple[str, ...] = ()
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

    @property
    def standing(self) -> Standing | None:
        """Where the turn under way stands; None without one."""
        turn = self._turn
        if turn is None:
            return None
        at = turn.record.timeline.at
        return standing(
            self.phase,
            progress=at[Milestone.FIRST_PROGRESS] > 0,
            answer=at[Milestone.FIRST_ANSWER] > 0,
        )

    def due_ns(self) -> int | None:
        """When `tick` is due next; None without a turn."""
        turn = self._turn
        if turn is None:
            return None
        due = self._phase_due(turn)
        return due if self.phase in UNHURRIED else min(due, self._turn_due(turn))

    @property
    def has_commands(self) -> bool:
        """Whether `take_commands` would give any."""
        return bool(self._commands)

    def take_commands(self) -> list[Command]:
        """The commands to carry out now, in order."""
        commands, self._commands = self._commands, []
        return commands

    def _enter(self, phase: Phase, at_ns: int) -> None:
        if phase is not self.phase and phase not in MOVES[self.phase]:
            raise GeneratorError(f"illegal move from {self.phase.value!r} to {phase.value!r}")
        self.phase = phase
        self._entered_ns = at_ns
        due = self.due_ns()
        if due is not None:
            self._commands.append(Wait(due))

    def _phase_due(self, turn: OpenTurn) -> int:
        limits = self._deadlines
        match self.phase:
            case Phase.CONNECTING:
                return self._entered_ns + seconds_ns(limits.connect_s)
            case Phase.LOGGING_IN | Phase.PREPARING:
                return self._entered_ns + seconds_ns(limits.auth_s)
            case Phase.WAITING:
                return self._entered_ns + seconds_ns(limits.first_event_s)
            case Phase.RESUMING:
                return self._entered_ns + seconds_ns(limits.resume_s)
            case Phase.WORKING if turn.ignores and turn.expiry_ns:
                return turn.expiry_ns + seconds_ns(limits.prompt_grace_s)
            case Phase.WORKING:
                return turn.last_event_ns + seconds_ns(limits.silence_s)
            case Phase.BACKING_OFF:
                return self._resume_at_ns
            case Phase.POLLING if turn.poll_at_ns:
                return turn.poll_at_ns
            case Phase.POLLING | Phase.AWAY:
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
            side=labels.side,
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
            words = self.dialect.quit() if self._ready and outcome is Outcome.ABANDONED else None
            if words is None:
                self._close(turn, at_ns)
            else:
                turn.quitting = True
                self._commands.append(Send(words))
                self._settle_at_ns = at_ns + _QUIT_NS
                self._enter(Phase.SETTLING, at_ns)
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

    def _close(self, turn: OpenTurn, at_ns: int) -> None:
        """Give the record of a turn that has its verdict."""
        verdict = turn.verdict
        if verdict is None:
            raise GeneratorError("a turn was closed without a verdict")
        parting = Parting.KEEP if verdict.keep else Parting.BREAK
        if turn.quitting or (verdict.keep and self._is_socket and self.dialect.one_turn):
            parting = Parting.CLOSE
        detail = self._redacted(verdict.detail)[:_DETAIL_LIMIT]
        record = turn.close(verdict._replace(detail=detail))
        if record.tag_seen is not None:
            record.tag_seen = self._redacted(record.tag_seen)
        if self._keep_answers:
            record.answer = self._redacted(turn.answer)
        self._ready = self._ready and parting is Parting.KEEP
        self._turn = None
        self._unflushed.clear()
        self._enter(Phase.IDLE, at_ns)
        self._commands.append(Finish(record, parting))

    def _redacted(self, text: str) -> str:
        secrets = (*self.identity.secrets, *self._secrets, *self.dialect.secrets)
        return redacted(text, secrets)


def _human_delay_ns(turn: OpenTurn) -> int:
    plan = turn.reply_plan
    delay = None
    if plan is not None:
        delay = plan.delay_ns if plan.drop_after_ns is None else plan.drop_after_ns
    if delay is None:
        raise GeneratorError("the analyst is at a prompt that is not open")
    return delay
