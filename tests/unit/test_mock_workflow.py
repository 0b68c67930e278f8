"""What the scripted workflow does, act by act, and how a performance times and marks it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from loadgen.clock import NS_PER_MS, now_ns
from mockagent.agent import Agent, Settings
from mockagent.consents import Flow
from mockagent.faults import Break, Faults
from mockagent.payloads import Written, markdown
from mockagent.performance import Performance
from mockagent.script import Script
from mockagent.stage import Part
from mockagent.truth import Outcome, TruthLog, TurnTruth
from mockagent.words import read_words
from mockagent.workflow import Act, Ask, Chunk, Consent, Event, Pause, WorkflowFailure, work


def acts(text: str, *replies: str) -> list[str]:
    """The acts of a question in short, pauses of nothing left out."""
    words = read_words(text)
    playing = work(text, Script.from_words(words), Faults.from_words(words), "root")
    answers = list(replies)
    said: list[str] = []
    value: str | None = None
    try:
        while True:
            act = playing.send(value)
            value = answers.pop(0) if isinstance(act, Ask) else None
            said += _short(act)
    except StopIteration:
        return said
    except WorkflowFailure as failure:
        return [*said, f"{failure.kind}: {failure}"]


def _short(act: Act) -> list[str]:
    if isinstance(act, Pause):
        return [f"{act.ms:g}"] if act.ms else []
    if isinstance(act, Chunk):
        return [act.text]
    if isinstance(act, Event):
        step = markdown(act)
        name = act.kind.value if step is None else step.name
        return [f"{name}{'!' if act.said else ''}"]
    if isinstance(act, Consent):
        return ["consent"]
    return [f"ask {act.kind}"] if isinstance(act, Ask) else []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "steps=1 step_ms=5 tokens=2 token_ms=3 tag=t",
            "Tool: search|5|Tool: search!|3|w0 |3|w1 |tag=t",
        ),
        ("steps=1 step_ms=5 step_kind=none tokens=0", "5|end"),
        ("steps=1 step_ms=5 step_kind=custom tokens=0", "CUSTOM_START|5|CUSTOM_END!|end"),
        ("steps=1 step_ms=5 step_kind=llm tokens=0", "search|5|search!|end"),
        (
            "steps=1 step_ms=5 step_kind=function tokens=0",
            "Function Start: retriever|5|Function Complete: retriever!|end",
        ),
        ("steps=0 tokens=1 token_ms=0 token_len=4", "w0xx |end"),
        (
            "steps=0 tokens=2 token_ms=0 llm=1",
            "sim-model|sim-model!|w0 |sim-model!|w1 |sim-model!|end",
        ),
        ("steps=0 tokens=2 token_ms=0 think_ms=7 hang_ms=9", "7|w0 |9|w1 |end"),
        ("steps=0 tokens=1 token_ms=0 first_ms=7 tail_ms=4", "7|w0 |end|4"),
        ("steps=1 step_ms=5 fail=start", "ScriptedFailure: scripted failure at start"),
        ("steps=0 tokens=1 token_ms=0 fail=end", "w0 |ScriptedFailure: scripted failure at end"),
        (
            "steps=0 tokens=4 token_ms=0 fail_after=1",
            "w0 |ScriptedFailure: scripted failure after 1 chunks",
        ),
        ("steps=0 oauth=1 tokens=0", "consent|[oauth ok] |end"),
        ("steps=0 hitl=shout", "ScriptedFailure: unknown hitl kind 'shout'"),
        (
            "steps=0 tokens=2 token_ms=0 hitl=text,radio hitl_at=mid",
            "w0 |ask text|ask radio|[hitl text:a radio:b] |w1 |end",
        ),
    ],
)
def test_the_script_says_what_happens(text: str, expected: str) -> None:
    assert acts(text, "a", "b") == expected.split("|")


class Recorder:
    """A stage that keeps what it is given, write by write."""

    websocket = False

    def __init__(self, reply_after_s: float = 0.0) -> None:
        self.writes: list[list[str]] = []
        self.at_ns: list[int] = []
        self._reply_after_s = reply_after_s

    def step(self, event: Event) -> str | None:
        step = markdown(event)
        return None if step is None else step.name

    def chunk(self, written: Written) -> str:
        return written.text

    def role(self) -> str:
        return "role"

    def trace(self, trace: str) -> str:
        return "trace"

    def inband_error(self) -> Sequence[str]:
        return ("inband",)

    def failed(self, failure: WorkflowFailure) -> Sequence[str]:
        return ("failed",)

    def completed(self, chunks: int) -> Sequence[str]:
        return ()

    def ask(self, kind: str, prompt: dict[str, Any]) -> tuple[str, asyncio.Future[str]]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str] = loop.create_future()
        loop.call_later(self._reply_after_s, answer.set_result, "yes")
        return f"ask {kind}", answer

    def asked(self) -> None: ...

    def consent(self, flow: Flow) -> str:
        flow.allow()
        return "consent"

    def consented(self) -> None: ...

    async def send(self, frames: Sequence[str]) -> None:
        if frames:
            self.writes.append(list(frames))
            self.at_ns.append(now_ns())

    async def end(self) -> None: ...

    async def break_off(self, how: Break) -> None:
        self.writes.append([how.value])


def perform(text: str, stage: Recorder) -> tuple[Outcome, TurnTruth]:
    """Perform a question on ``stage``."""
    words = read_words(text)
    part = Part(text, "given", Script.from_words(words), Faults.from_words(words), user="ann")
    truth = TruthLog(10).begin("id", "c", "sse", "/", now_ns())

    async def run() -> Outcome:
        agent = Agent(Settings())
        try:
            return await Performance(agent, part, stage, truth).run()
        finally:
            agent.deadlines.close()

    return asyncio.run(run()), truth


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("steps=1 step_ms=1 tokens=1 token_ms=1", "START|Tool: search|Tool: search|w0 |end|DONE"),
        (
            "steps=1 step_ms=1 tokens=1 token_ms=1 hitl=text",
            "START|Tool: search|ask text|Tool: search|[hitl text:yes] |w0 |end|DONE",
        ),
        (
            "steps=0 tokens=2 token_ms=1 hitl=text hitl_at=end",
            "START|w0 |ask text|w1 |[hitl text:yes] |end|DONE",
        ),
        ("steps=1 step_ms=1 fail=steps", "START|Tool: search|failed"),
        ("steps=0 fail=start", "failed"),
        ("steps=0 tokens=1 token_ms=1 trace=1", "START|w0 |end|trace|DONE"),
        (
            "steps=1 step_ms=1 tokens=1 token_ms=1 trace=1",
            "START|trace|Tool: search|Tool: search|w0 |end|DONE",
        ),
        ("steps=0 tokens=1 token_ms=1 oauth=1", "consent|START|[oauth ok] |w0 |end|DONE"),
        ("steps=0 tokens=1 token_ms=1 stray=1", "DONE|START|w0 |end|DONE"),
        ("steps=0 tokens=3 token_ms=1 cut=2", "START|w0 |w1 |cut"),
        ("steps=0 tokens=3 token_ms=1 eof=0", "START|eof"),
        ("steps=0 tokens=2 token_ms=1 inband_error=1", "START|w0 |inband"),
        (
            "steps=1 step_ms=4 tokens=1 token_ms=1 role_chunk=1 role_ms=2",
            "START|Tool: search|role|Tool: search|w0 |end|DONE",
        ),
    ],
)
def test_frames_leave_in_nats_order(text: str, expected: str) -> None:
    stage = Recorder()
    perform(text, stage)
    said = "|".join(frame for write in stage.writes for frame in write)
    said = said.replace("Function Start: <workflow>", "START")
    assert said.replace("Function Complete: <workflow>", "DONE") == expected


def test_a_burst_is_one_write() -> None:
    stage = Recorder()
    perform("steps=0 tokens=4 token_ms=2 burst=3", stage)
    assert ["w0 ", "w1 ", "w2 "] in stage.writes
    assert ["w3 "] in stage.writes


def test_what_is_held_leaves_together_and_is_stamped_then() -> None:
    stage = Recorder()
    _, truth = perform("steps=1 step_ms=5 tokens=2 token_ms=5 hold_ms=60", stage)
    assert len(stage.writes[0]) >= 6
    assert truth.first_answer_ns == truth.first_progress_ns == truth.last_answer_ns
    assert truth.first_answer_ns - truth.slot_ns >= 60 * NS_PER_MS


@pytest.mark.case("D-56")
def test_frames_are_never_early_and_lateness_does_not_add_up() -> None:
    stage = Recorder()
    _, truth = perform("steps=0 tokens=1000 token_ms=1", stage)
    chunks = stage.at_ns[1:1001]
    late = [at - truth.slot_ns - (n + 1) * NS_PER_MS for n, at in enumerate(chunks)]
    assert min(late) >= 0
    assert sorted(late)[500] < 5 * NS_PER_MS
    assert truth.max_late_ns >= max(late)


def test_a_human_pause_moves_the_schedule() -> None:
    stage = Recorder(reply_after_s=0.05)
    _, truth = perform("steps=0 hitl=text tokens=1 token_ms=20", stage)
    prompt = truth.prompts[0]
    assert prompt.answered_ns - prompt.sent_ns >= 49 * NS_PER_MS
    assert truth.last_answer_ns - prompt.answered_ns >= 20 * NS_PER_MS
    assert truth.chunks == 3


def test_truth_marks_the_synthetic_step_apart_from_work() -> None:
    _, truth = perform("steps=1 step_ms=5 first_ms=20 tokens=1", Recorder())
    assert truth.first_progress_ns - truth.first_step_ns >= 19 * NS_PER_MS
    assert (truth.steps, truth.chunks) == (4, 2)


def test_the_truth_log_is_bounded_and_counts_what_it_drops() -> None:
    log = TruthLog(limit=2)
    for number in range(5):
        log.end(log.begin(str(number), None, "sse", "/", 1), Outcome.COMPLETED)
        log.happened("connect", number, None)
    assert len(list(log.lines(0, running=False))) == 2
    assert len(list(log.lines(4, running=False))) == 1
    assert len(list(log.sockets())) == 2
    summary = log.summary()
    assert (summary["turns"], summary["dropped"], summary["next"]) == (5, 3, 5)
    assert summary["sockets_dropped"] == 3
