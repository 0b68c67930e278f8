"""A turn under way: what has happened so far, until it is closed into its record.

Only bookkeeping: what is to be done about it is the conversation's business.
"""

from __future__ import annotations

from typing import NamedTuple

from loadgen.clock import NS_PER_MS
from loadgen.dialects.contract import Ask
from loadgen.events import Failed, Prompt, PromptKind, Reviewed, Work
from loadgen.flow import flow
from loadgen.persona import PRESENT, Absence, ReplyPlan
from loadgen.turn import (
    Cause,
    ConnectionRecord,
    LossRecord,
    Milestone,
    Outcome,
    PreparationRecord,
    PromptRecord,
    TurnRecord,
    WorkRecord,
)
from loadgen.wire.frame import Request

# Plain integers: an index that is an enum member costs several times as much, at every event.
_STARTED, _FIRST_BYTE = int(Milestone.STARTED), int(Milestone.FIRST_BYTE)
_FIRST_STEP, _FIRST_PROGRESS = int(Milestone.FIRST_STEP), int(Milestone.FIRST_PROGRESS)
_FIRST_ANSWER, _LAST_ANSWER = int(Milestone.FIRST_ANSWER), int(Milestone.LAST_ANSWER)


_EXPIRY_SLACK_NS = 50 * NS_PER_MS
"""A server counts a prompt's timeout from its own write, we from its arrival."""


class Verdict(NamedTuple):
    """How a turn ended; ``keep``: its connection may carry another."""

    at_ns: int
    outcome: Outcome
    cause: Cause | None
    detail: str
    keep: bool


class OpenTurn:
    """The turn under way; all times in monotonic ns.

    ``asked_ns``: when the question was put, 0 before; what arrives from then on belongs to this
    turn. ``attempts``: how often a connection for it was given up for another. ``failure``: the
    first failure heard of, which decides the outcome when the terminal frame comes.
    ``reply_failure``: a reply was not taken, which explains a turn that does not complete, but does
    not spoil one that does. ``replying``: the prompt whose reply was written last, until the next
    is begun; ``again``: the request that says it twice; ``ignores``: the prompt will get none, so
    that no deadline waits for it. ``poll_key``: where a turn that goes on out of sight is asked
    after, every ``poll_ns``, next at ``poll_at_ns`` (0: an answer is awaited). ``expiry_ns``: when
    the open prompt times out, 0: never. ``quitting``: the analyst has said that it gives up.
    ``absence``: how far the analyst is not there, ``leaves_at`` the chunk with which it sets
    out, 0: it stays, or has set out.
    ``verdict``: how the turn ended, when only a last request keeps it open.
    """

    __slots__ = (
        "_arrivals",
        "_at",
        "_breaks",
        "_deliveries",
        "_parts",
        "_user_reads",
        "absence",
        "again",
        "ask",
        "asked_ns",
        "attempts",
        "connection",
        "expiry_ns",
        "failure",
        "ignores",
        "insisted",
        "interrupt_ns",
        "last_event_ns",
        "leaves_at",
        "loss",
        "patience_ns",
        "pause",
        "paused_total_ns",
        "poll_at_ns",
        "poll_failures",
        "poll_key",
        "poll_ns",
        "preparation",
        "prompt",
        "quitting",
        "record",
        "reply_failure",
        "reply_plan",
        "replying",
        "retried",
        "verdict",
    )

    def __init__(self, ask: Ask, record: TurnRecord, patience_ns: int | None) -> None:
        self.ask = ask
        self.record = record
        self.patience_ns = patience_ns
        self.asked_ns = 0
        self.retried = False
        self.failure: Failed | None = None
        self.reply_failure: Failed | None = None
        self.last_event_ns = 0
        self.paused_total_ns = 0
        self.interrupt_ns: int | None = None
        self.absence: Absence = PRESENT
        self.leaves_at = 0
        self.insisted = False
        self.ignores = False
        self.quitting = False
        self.expiry_ns = 0
        self.attempts = 0
        self.again: Request | None = None
        self.poll_key = ""
        self.poll_ns = self.poll_at_ns = self.poll_failures = 0
        self.verdict: Verdict | None = None
        self.prompt: Prompt | None = None
        self.pause: PromptRecord | None = None
        self.replying: PromptRecord | None = None
        self.reply_plan: ReplyPlan | None = None
        self.loss: LossRecord | None = None
        self.preparation: PreparationRecord | None = None
        self.connection: ConnectionRecord | None = None
        self._at = record.timeline.at
        self._deliveries = 0
        self._parts: list[str] = []
        self._user_reads = 0
        self._arrivals: list[int] = []
        self._breaks: list[int] = []  # chunks that came first after a pause of the analyst

    @property
    def started_ns(self) -> int:
        """STARTED."""
        return self._at[_STARTED]

    @property
    def heard(self) -> bool:
        """Whether the agent has said anything since the question was put."""
        return self.last_event_ns > self.asked_ns

    @property
    def answer(self) -> str:
        """The answer's text so far."""
        return "".join(self._parts)

    def note(self, kind: str) -> None:
        """Count a happening of ``kind``."""
        notices = self.record.notices
        notices[kind] = notices.get(kind, 0) + 1

    # connections

    def prepare(self, name: str, at_ns: int) -> None:
        """Something is being asked for that a connection needs."""
        self.preparation = PreparationRecord(name, at_ns)
        self.record.preparations.append(self.preparation)

    def prepared(self, status: int, at_ns: int | None) -> None:
        """How that was answered; granted at ``at_ns``, None: refused."""
        if self.preparation is not None:
            self.preparation.status, self.preparation.done_ns = status, at_ns

    def connect(self, at_ns: int, resumes: bool) -> None:
        """A connection is being opened."""
        self.connection = ConnectionRecord(at_ns, resumes=resumes)
        self.record.connections.append(self.connection)

    def retry(self) -> None:
        """The question went nowhere: it will be put again, and only then counts as sent."""
        self.retried = True
        self.asked_ns = 0
        self._at[Milestone.SENT] = 0
        self.note("stale_connection")

    def ask_again(self) -> None:
        """The question will be put once more, to a server that may have it already."""
        self.attempts += 1
        self.record.asked_again += self.asked_ns > 0
        self.asked_ns = 0
        self.prompt = None

    def lose(self, at_ns: int, code: int | None) -> None:
        """The connection is gone in mid-turn; a human pause ends with it."""
        if self.loss is None:
            pausing = self.pause is not None and self.pause.resumed_ns is None
            self.loss = LossRecord(at_ns, "prompt" if pausing else "turn", code=code)
            self.record.losses.append(self.loss)
        self.end_pause(at_ns)
        self.pause = None

    # reading

    def read(self, at_ns: int, size: int, kernel: bool) -> None:
        """One read of the connection."""
        record = self.record
        record.reads += 1
        record.bytes += size
        if not kernel:
            self._user_reads += 1
        if self.asked_ns and not self._at[_FIRST_BYTE]:
            self._at[_FIRST_BYTE] = at_ns

    def burst(self, size: int) -> None:
        """One read gave ``size`` events; more than one share a stamp, an upper bound for the
        earlier ones.
        """
        record = self.record
        record.events += size
        if size > 1:
            record.merged_reads += 1
            if size > record.max_burst:
                record.max_burst = size

    def hear(self, at_ns: int) -> None:
        """A sign of life of the turn: ends a loss, and is what came after a reply."""
        if at_ns > self.last_event_ns:
            self.last_event_ns = at_ns
        if self.loss is not None:
            self.loss.recovered_ns = at_ns
            self.loss = None
        pause = self.pause
        # What the kernel had before the reply left is read after it, but does not come of it.
        if pause is not None and pause.replied and at_ns >= (pause.resumed_ns or 0):
            pause.next_event_ns = at_ns
            self.pause = self.prompt = None
        elif pause is not None and 0 < self.expiry_ns <= at_ns + _EXPIRY_SLACK_NS:
            self._expire(pause, at_ns)

    def _expire(self, pause: PromptRecord, at_ns: int) -> None:
        """Nobody replied in time, and the agent goes on without: a reply may still be sent."""
        self.note("prompt_expired")
        if pause.resumed_ns is None:
            pause.expired = True
            pause.resumed_ns = max(pause.paused_ns, min(self.expiry_ns, at_ns))
            self.paused_total_ns += pause.resumed_ns - pause.paused_ns
        self.expiry_ns = 0

    def first_step(self, at_ns: int) -> None:
        """The server's synthetic first step."""
        if not self._at[_FIRST_STEP]:
            self._at[_FIRST_STEP] = at_ns

    def progress(self, kind: str, at_ns: int) -> None:
        """Work that the agent shows."""
        self.record.steps += 1
        if not self._at[_FIRST_PROGRESS]:
            self._at[_FIRST_PROGRESS] = at_ns
            self.record.first_progress_kind = kind
            self.first_step(at_ns)

    def add_work(self, work: Work) -> None:
        """What the server says that a step cost."""
        of_module = self.record.work.setdefault(work.module, WorkRecord())
        of_module.steps += 1
        of_module.seconds += work.seconds
        of_module.input_tokens += work.input_tokens
        of_module.output_tokens += work.output_tokens

    def review(self, found: Reviewed) -> None:
        """What the whole answer was found to be."""
        record = self.record
        record.chunks_match = found.chunks_match
        record.citations, record.unresolved_citations = found.citations, found.unresolved
        record.visualizations = found.visualizations

    def chunk(self, text: str, at_ns: int) -> None:
        """Answer text."""
        at = self._at
        if not at[_FIRST_ANSWER]:
            at[_FIRST_ANSWER] = at_ns
        at[_LAST_ANSWER] = at_ns
        self.record.chunks += 1
        self._arrivals.append(at_ns)
        self._parts.append(text)

    def usual_chunk(self, text: str, at_ns: int, size: int, kernel: bool) -> None:
        """A read that gave one piece of answer and nothing else, while nobody pauses.

        All of `read`, `hear`, `chunk` and `burst` that it takes, in one call.
        """
        record, at = self.record, self._at
        record.reads += 1
        record.bytes += size
        record.events += 1
        record.chunks += 1
        if not kernel:
            self._user_reads += 1
        if at_ns > self.last_event_ns:
            self.last_event_ns = at_ns
        if not at[_FIRST_ANSWER]:
            at[_FIRST_ANSWER] = at_ns
        at[_LAST_ANSWER] = at_ns
        self._arrivals.append(at_ns)
        self._parts.append(text)

    # prompts

    def notify(self, at_ns: int) -> None:
        """The agent shows something that wants no reply: visible, but no pause."""
        self.record.prompts.append(PromptRecord(PromptKind.NOTIFICATION.value, at_ns))

    def ask_human(self, prompt: Prompt, at_ns: int) -> int:
        """A prompt is open; gives how many times it has been delivered.

        One that was open is superseded: the analyst turns to the new one.
        """
        self.end_pause(at_ns)
        self.expiry_ns = 0
        self._breaks.append(len(self._arrivals))
        again = self.prompt is not None
        self._deliveries = self._deliveries + 1 if again else 1
        self.prompt = prompt
        self.ignores = False
        self.pause = PromptRecord(prompt.kind.value, at_ns)
        self.record.prompts.append(self.pause)
        if prompt.execution:
            self.record.execution = prompt.execution
        return self._deliveries

    def reply_written(self, at_ns: int) -> None:
        """The analyst's reply is with the kernel: the pause is over."""
        if self.pause is not None:
            self.pause.replied = True
            self.replying = self.pause
            self.end_pause(at_ns)

    def end_pause(self, at_ns: int) -> None:
        """The analyst no longer holds the turn up."""
        pause = self.pause
        if pause is None or pause.resumed_ns is not None:
            return
        pause.resumed_ns = at_ns
        self.paused_total_ns += at_ns - pause.paused_ns
        if not pause.replied:
            self.pause = None

    def paused_until_ns(self, at_ns: int) -> int:
        """How long the analyst has held the turn up, counting to ``at_ns`` if it still does."""
        pause = self.pause
        if pause is None or pause.resumed_ns is not None or self.ignores:
            return self.paused_total_ns
        return self.paused_total_ns + at_ns - pause.paused_ns

    # the end

    def foreign_tag(self) -> str | None:
        """The tag of another turn, if the answer carries one; notes what tag was seen."""
        if self.record.tag is None:
            return None
        seen = _last_tag(self.answer)
        self.record.tag_seen = seen
        return seen if seen is not None and seen != self.record.tag else None

    def close(self, verdict: Verdict) -> TurnRecord:
        """The finished record."""
        record = self.record
        record.timeline.mark(Milestone.ENDED, verdict.at_ns)
        record.outcome, record.cause = verdict.outcome, verdict.cause
        record.detail = verdict.detail
        if record.reads:
            record.stamp = "user" if self._user_reads else "kernel"
            record.user_reads = self._user_reads or None
        sizes = list(map(len, self._parts))
        record.answer_chars = sum(sizes)
        record.flow = flow(self._arrivals, self._breaks, sizes)
        return record


def _last_tag(answer: str) -> str | None:
    """The text after the last ``tag=`` of an answer, up to the next blank."""
    _, found, rest = answer.rpartition("tag=")
    words = rest.split()
    return words[0] if found and words else None
