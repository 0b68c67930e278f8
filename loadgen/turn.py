"""One question up to its outcome: milestones, outcomes, causes and the record kept of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import IntEnum, StrEnum
from operator import attrgetter
from typing import Any

from loadgen.clock import NS_PER_MS
from loadgen.flow import Flow


class Milestone(IntEnum):
    """Points of a turn, in the order of their usual happening; each is stamped when it first
    happens.
    """

    SCHEDULED = 0
    STARTED = 1
    CONNECTED = 2
    AUTHENTICATED = 3
    SENT = 4
    FIRST_BYTE = 5
    FIRST_STEP = 6
    FIRST_PROGRESS = 7
    FIRST_ANSWER = 8
    LAST_ANSWER = 9
    ENDED = 10


class Outcome(StrEnum):
    """How a turn ended.

    ``completed`` is the only success.  ``dropped`` is an arrival that found no free analyst;
    ``cut_off`` a turn
    that the end of the run interrupted (right-censored); ``abandoned`` one that the analyst gave
    up.
    """

    COMPLETED = "completed"
    FAILED = "failed"
    INCOMPLETE = "incomplete"
    TIMED_OUT = "timed_out"
    REFUSED = "refused"
    ABANDONED = "abandoned"
    DROPPED = "dropped"
    CUT_OFF = "cut_off"


class Cause(StrEnum):
    """Why a turn did not complete.  A closed set: free text belongs in the record's ``detail``."""

    AGENT_ERROR = "agent_error"
    AUTH_REJECTED = "auth_rejected"
    CONNECT_FAILED = "connect_failed"
    RATE_LIMITED = "rate_limited"
    STREAM_CUT = "stream_cut"
    STALLED = "stalled"
    PROTOCOL_VIOLATION = "protocol_violation"
    PATIENCE = "patience"
    NO_SLOT = "no_slot"
    CLIENT_RESOURCE = "client_resource"
    GENERATOR_FAULT = "generator_fault"
    LOST_RESUME = "lost_resume"
    WITHHELD = "withheld"
    EMPTY_ANSWER = "empty_answer"
    ISOLATION = "isolation"


class Timeline:
    """When each milestone first happened, in monotonic ns; 0 means it did not happen."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at: list[int] = [0] * len(Milestone)

    def mark(self, milestone: Milestone, at_ns: int) -> None:
        """Stamp ``milestone`` unless it has already happened."""
        if not self.at[milestone]:
            self.at[milestone] = at_ns

    def __getitem__(self, milestone: Milestone) -> int | None:
        return self.at[milestone] or None


@dataclass(slots=True)
class PromptRecord:
    """One human-in-the-loop prompt of a turn; times in monotonic ns.

    ``paused_ns`` is when the prompt was fully received, ``resumed_ns`` when the reply was fully
    written (of a consent: when its URL was opened), or the pause was broken by a lost connection;
    ``next_event_ns`` the first event after the reply; ``again_status`` how the same reply was taken
    when it was said twice.
    """

    kind: str
    paused_ns: int
    resumed_ns: int | None = None
    replied: bool = False
    reply_status: int | None = None
    reply_done_ns: int | None = None
    next_event_ns: int | None = None
    again_status: int | None = None
    expired: bool = False
    """The agent went on without a reply; one that is sent then is late."""


@dataclass(slots=True)
class PreparationRecord:
    """One request that a connection needed before it could be opened; times in monotonic ns.

    ``done_ns`` is when it was granted, ``status`` how it was answered.
    """

    name: str
    begun_ns: int
    done_ns: int | None = None
    status: int | None = None


@dataclass(slots=True)
class ConnectionRecord:
    """One connection opened in a turn; times in monotonic ns."""

    begun_ns: int
    connected_ns: int | None = None
    login_ns: int | None = None
    authenticated_ns: int | None = None
    resumes: bool = False
    failure: str | None = None


@dataclass(slots=True)
class LossRecord:
    """One lost connection in a turn (or in the idle time before it); ``recovered_ns`` is the next
    event of the turn.
    """

    lost_ns: int
    during: str
    recovered_ns: int | None = None
    code: int | None = None


@dataclass(slots=True)
class WorkRecord:
    """The steps of one module of the server, as the server counts them; ``seconds`` of all."""

    steps: int = 0
    seconds: float = 0.0
    input_tokens: float = 0.0
    output_tokens: float = 0.0


@dataclass(slots=True)
class TurnRecord:
    """All that is kept of one turn.  Facts only; durations are made by ``metrics``.

    ``timeline`` and the lists are in monotonic ns; ``to_row`` turns them into ms offsets from
    STARTED.
    """

    turn: str
    user: str
    conversation: str
    scenario: str
    dialect: str
    route: str
    worker: str
    timeline: Timeline
    started_at: str = ""
    outcome: Outcome = Outcome.COMPLETED
    cause: Cause | None = None
    detail: str = ""
    analyst_group: str = ""
    side: str = ""
    """Of an A/B run: see `loadgen.side`."""
    number: int = 0
    stamp: str | None = None
    first_progress_kind: str | None = None
    tag: str | None = None
    tag_seen: str | None = None
    answer: str | None = None
    answer_chars: int = 0
    chunks: int = 0
    steps: int = 0
    events: int = 0
    reads: int = 0
    user_reads: int | None = None
    """Reads that the kernel did not stamp, or not credibly: the wall clock was set."""
    merged_reads: int = 0
    bytes: int = 0
    max_burst: int = 0
    flow: Flow | None = None
    """How the answer's chunks came; known when the turn is over."""
    output_tokens: int | None = None
    """As the server counts them, where it does."""
    status: int | None = None
    content_encoding: str | None = None
    execution: str | None = None
    execution_state: str | None = None
    polls: int = 0
    asked_again: int = 0
    """How often the question was put once more after a lost connection."""
    chunks_match: bool | None = None
    citations: int | None = None
    unresolved_citations: int | None = None
    visualizations: int | None = None
    work: dict[str, WorkRecord] = field(default_factory=dict)
    """What the server says that its modules cost."""
    late_events: int = 0
    prompts: list[PromptRecord] = field(default_factory=list)
    preparations: list[PreparationRecord] = field(default_factory=list)
    connections: list[ConnectionRecord] = field(default_factory=list)
    losses: list[LossRecord] = field(default_factory=list)
    notices: dict[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the turn completed."""
        return self.outcome is Outcome.COMPLETED

    @property
    def max_gap_ns(self) -> int | None:
        """The longest gap between two chunks of the answer; None before there are two."""
        return None if self.flow is None else self.flow.longest_ns

    @property
    def recovered(self) -> bool:
        """Whether the turn completed after losing its connection in mid-turn."""
        return self.ok and any(loss.during != "idle" for loss in self.losses)

    def to_row(self) -> dict[str, Any]:
        """The journal row: JSON values only, times as ``_ms`` offsets from STARTED, absent keys for
        what did not happen.
        """
        start = self.timeline.at[Milestone.STARTED]
        row: dict[str, Any] = {}
        for name, value in zip(_PLAIN, _plain_values(self), strict=True):
            if value is not None and value != "":
                row[name] = value
        row["outcome"] = self.outcome.value
        if self.cause is not None:
            row["cause"] = self.cause.value
        row["started_mono_ns"] = start
        if not start:
            # An arrival that was dropped has no STARTED to count from.
            row["scheduled_mono_ns"] = self.timeline.at[Milestone.SCHEDULED]
            return row
        for key, at_ns in zip(_MILESTONE_KEYS, self.timeline.at, strict=True):
            if at_ns and key:
                row[key] = round((at_ns - start) / NS_PER_MS, 6)
        if self.flow is not None:
            row |= _flow(self.flow, start)
        if self.recovered:
            row["recovered"] = True
        if self.notices:
            row["notices"] = self.notices
        if self.work:
            row["work"] = {module: asdict(work) for module, work in self.work.items()}
        for key, happened in self._happenings(start).items():
            if happened:
                row[key] = happened
        return row

    def _happenings(self, start: int) -> dict[str, list[Any]]:
        def ms(at_ns: int | None) -> float | None:
            return None if not at_ns else round((at_ns - start) / NS_PER_MS, 6)

        prompts = [
            _present(
                kind=p.kind,
                paused_ms=ms(p.paused_ns),
                resumed_ms=ms(p.resumed_ns),
                replied=p.replied,
                reply_status=p.reply_status,
                reply_done_ms=ms(p.reply_done_ns),
                next_event_ms=ms(p.next_event_ns),
                again_status=p.again_status,
                expired=p.expired or None,
            )
            for p in self.prompts
        ]
        preparations = [
            _present(name=p.name, begun_ms=ms(p.begun_ns), done_ms=ms(p.done_ns), status=p.status)
            for p in self.preparations
        ]
        connections = [
            _present(
                begun_ms=ms(c.begun_ns),
                connected_ms=ms(c.connected_ns),
                login_ms=ms(c.login_ns),
                authenticated_ms=ms(c.authenticated_ns),
                resumes=c.resumes or None,
                failure=c.failure,
            )
            for c in self.connections
        ]
        losses = [
            _present(
                lost_ms=ms(loss.lost_ns),
                during=loss.during,
                recovered_ms=ms(loss.recovered_ns),
                code=loss.code,
            )
            for loss in self.losses
        ]
        return {
            "prompts": prompts,
            "preparations": preparations,
            "connections": connections,
            "losses": losses,
        }


_PLAIN = (
    "turn",
    "user",
    "conversation",
    "scenario",
    "dialect",
    "route",
    "worker",
    "started_at",
    "detail",
    "analyst_group",
    "side",
    "number",
    "stamp",
    "first_progress_kind",
    "tag",
    "tag_seen",
    "answer",
    "answer_chars",
    "chunks",
    "steps",
    "events",
    "reads",
    "user_reads",
    "merged_reads",
    "bytes",
    "max_burst",
    "status",
    "content_encoding",
    "execution",
    "execution_state",
    "polls",
    "asked_again",
    "chunks_match",
    "citations",
    "unresolved_citations",
    "visualizations",
    "late_events",
    "output_tokens",
)


_plain_values = attrgetter(*_PLAIN)
_MILESTONE_KEYS = tuple(
    "" if milestone is Milestone.STARTED else f"{milestone.name.lower()}_ms"
    for milestone in Milestone
)


def _flow(flow: Flow, start: int) -> dict[str, Any]:
    """Gaps as buckets with their numbers, one after the other; see `loadgen.flow`."""
    found: dict[str, Any] = {"twentieth_ms": round((flow.twentieth_ns - start) / NS_PER_MS, 6)}
    if flow.longest_ns is not None:
        found["max_gap_ms"] = round(flow.longest_ns / NS_PER_MS, 6)
        found["gaps"] = [item for pair in sorted(flow.gaps.items()) for item in pair]
    if flow.stalls:
        found |= {"stalls": flow.stalls, "stalled_ms": round(flow.stalled_ns / NS_PER_MS, 6)}
    return found


def _present(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
