"""Frames of Progress Agentic RAG (``AragAnswer``) to events, the same on a socket and in NDJSON.

A frame has all its keys, nearly all of them null; ``operation`` says what it is:

=====================================  =========================================================
frame                                  event
=====================================  =========================================================
2 START                                `Notice`; a run begins
0 with ``step``                        `Progress` ``step``, with its `Work`
0 with ``context``                     `Progress` ``context``
0 with ``possible_answer``,            `Progress`: a draft, not the answer
``generated_text``
0 with ``answer``                      `Reviewed`; before it `Answer`, if no chunk came
0 with nothing                         `Notice`: there is no answer
6 with text                            `Answer`
6 with ``agent_request``, or empty     `Notice`: whose chunks follow, and where they end
7                                      `Progress` ``reasoning``
5 with ``feedback``                    `Prompt`; about credentials: `Say`
5 with ``oauth``                       `Prompt` of kind ``oauth_consent``; its key is the URL
4 about a message of ours              `Rejected`
4 before START, on a socket            `Failed`: only the close will follow, or DONE
4 else                                 `Failed`, not final; an ``answer`` beside it is none
3 DONE                                 `Completed`, or the `Failed` that came before; without a
                                       word of answer failed, empty_answer
1 QUIT (documented, never seen)        `Failed`, or the one that came before
of a turn that is over                 `Notice` ``late``; a belated DONE is ``stale``
anything else                          `Notice` ``undecodable`` or ``unknown``
=====================================  =========================================================

Source: protocols/arag.md, sections 3 and 4.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson

from loadgen.clock import NS_PER_MS
from loadgen.dialects.arag_login import Json, Keyring
from loadgen.dialects.refusal import brief, shown
from loadgen.events import (
    Answer,
    Completed,
    Event,
    Failed,
    Notice,
    Progress,
    Prompt,
    PromptKind,
    Rejected,
    Reviewed,
    Say,
    Work,
)
from loadgen.turn import Cause, Outcome

_DONE = 3
_LONGEST_TIMEOUT_MS = 10**12
_SHOWN_ERRORS = 3

_COMPLAINTS = ("Unexpected message from user", "Invalid request payload")
"""Errors about a message of ours; the run, if there is one, goes on."""

_UNSERVED = re.compile(r"Failed to verify agent configuration|.*(not found|does not exist)$")
"""Errors about what the plan asks for."""

_START = (Notice("start"),)
_SOURCE = (Notice("source"),)
_LAST = (Notice("last chunk"),)
_EMPTY = (Notice("empty chunk"),)
_NO_ANSWER = (Notice("no answer"),)
_LATE = (Notice("late"),)
_STALE = (Notice("stale"),)
_REASONING = (Progress("reasoning"),)
_NO_TEXT = Failed(Outcome.FAILED, Cause.EMPTY_ANSWER, "the answer has no text")


class Heard:
    """What was said in a turn, to judge its whole answer by.  It outlives a connection."""

    __slots__ = (
        "_announced", "_contexts", "_ended", "_mixed", "_run_at", "_texts", "_turn", "started",
    )  # fmt: skip

    def __init__(self) -> None:
        self.started = False
        """Whether the server has begun to work on it."""
        self._turn = ""
        self._contexts: set[str] = set()
        self._forget()

    def begin(self, turn: str) -> None:
        """A turn begins, or is taken up again."""
        if turn != self._turn:
            self._turn = turn
            self.started = False
            self._contexts.clear()
            self._forget()

    def start(self) -> None:
        """A run of the question begins."""
        self.started = True
        self._forget()

    def _forget(self) -> None:
        self._texts: list[str] = []
        self._run_at = 0
        self._ended = False
        self._announced = 0
        self._mixed = False

    @property
    def chunks(self) -> int:
        """How many chunks of text there were."""
        return len(self._texts)

    def announce(self) -> None:
        """The chunks of an agent follow; two at once cannot be told apart."""
        self._announced += 1
        self._mixed = self._mixed or self._announced > 1

    def chunk(self, text: str) -> None:
        """A chunk of the answer, or of a draft that the workflow then discards."""
        if self._ended:
            self._ended = False
            self._run_at = len(self._texts)
        self._texts.append(text)

    def end_run(self) -> None:
        """An agent's last chunk has come."""
        self._ended = True
        self._announced = max(0, self._announced - 1)

    def context(self, source: str) -> None:
        """A source was shown."""
        self._contexts.add(source)

    def review(self, answer: str, message: Json) -> Reviewed:
        """The whole answer, held against what came before it."""
        match: bool | None = None
        if self._texts and not self._mixed:
            match = answer in ("".join(self._texts), "".join(self._texts[self._run_at :]))
        citations, charts = message.get("answer_citations"), message.get("data_visualizations")
        blocks = citations.get("metadata") if type(citations) is dict else None
        cited = list(blocks.values()) if type(blocks) is dict else []
        known = [
            type(block) is dict
            and type(source := block.get("context_id")) is str
            and source in self._contexts
            for block in cited
        ]
        return Reviewed(
            match, len(cited), known.count(False), len(charts) if type(charts) is list else 0
        )


class AnswerFrames:
    """The frames of one connection; see the module's table.

    Without a ``keyring`` nothing can be replied: the connection is no socket.
    """

    __slots__ = (
        "_answered", "_failure", "_heard", "_keyring", "_owes_done", "_said", "open",
    )  # fmt: skip

    def __init__(self, heard: Heard, keyring: Keyring | None = None) -> None:
        self.open = False
        """Whether a turn is under way."""
        self._heard = heard
        self._keyring = keyring
        self._owes_done = False
        self._forget()

    def begin(self, turn: str) -> None:
        """A turn was asked, or is being resumed, on this connection."""
        self._heard.begin(turn)
        self.open = True
        self._forget()

    def _forget(self) -> None:
        self._said = self._answered = False
        self._failure: Failed | None = None

    def __call__(self, text: str) -> tuple[Event, ...]:
        """What the frame ``text`` means."""
        try:
            message = orjson.loads(text)
        except ValueError:
            return (Notice("undecodable", brief(text)),)
        if type(message) is not dict:
            return (Notice("undecodable", brief(text)),)
        operation = message.get("operation")
        handle = _OPERATIONS.get(operation) if type(operation) is int else None
        if handle is None:
            return (Notice("unknown", f"operation {shown(operation)}"),)
        if not self.open:
            self._owes_done = self._owes_done and operation != _DONE
            return _LATE
        return handle(self, message)

    def verdict(self) -> Event:
        """How the turn ends that ends now."""
        self.open = False
        if self._failure is not None:
            return self._failure
        return Completed() if self._said else _NO_TEXT

    def unfinished(self, *, whole: bool = True) -> tuple[Event, ...] | None:
        """How the turn ends whose connection ended without DONE; None if that settles nothing.

        It ends well if its ``whole`` answer had come, and the connection was not cut.
        """
        if self._failure is not None:
            return (self.verdict(),)
        if not whole or not self._answered:
            return None
        return (Notice("no DONE"), self.verdict())

    def _start(self, message: Json) -> tuple[Event, ...]:
        self._owes_done = False
        self._heard.start()
        return _START

    def _done(self, message: Json) -> tuple[Event, ...]:
        if self._owes_done:
            self._owes_done = False
            return _STALE
        return (self.verdict(),)

    def _quit(self, message: Json) -> tuple[Event, ...]:
        self.open = False
        return (self._failure or Failed(Outcome.INCOMPLETE, Cause.AGENT_ERROR, "the agent quit"),)

    def _chunk(self, message: Json) -> tuple[Event, ...]:
        chunk = message.get("streaming_response_chunk")
        if type(chunk) is dict:
            text, last = chunk.get("text"), chunk.get("last") is True
            if type(text) is str and text:
                self._said = True
                self._heard.chunk(text)
                if last:
                    self._heard.end_run()
                return (Answer(text),)
            if last:
                self._heard.end_run()
                return _LAST
            return _EMPTY
        if type(message.get("agent_request")) is str:
            self._heard.announce()
            return _SOURCE
        return (Notice("undecodable", f"chunk {shown(chunk)}"),)

    def _reasoning(self, message: Json) -> tuple[Event, ...]:
        part = message.get("reasoning")
        return _REASONING if type(part) is dict and part.get("text") else _EMPTY

    def _answer(self, message: Json) -> tuple[Event, ...]:
        if message.get("exception") is not None:
            return self._error(message)
        events: list[Event] = []
        if (step := message.get("step")) is not None:
            events.append(_step(step))
        if (context := message.get("context")) is not None:
            events.append(self._context(context))
        if (draft := message.get("possible_answer")) is not None:
            events.append(Progress("possible_answer", _text(draft, "module")))
        if message.get("generated_text") is not None:
            events.append(Progress("generated_text"))
        if (answer := message.get("answer")) is not None:
            events += self._whole(answer, message)
        return tuple(events) or _NO_ANSWER

    def _context(self, context: Any) -> Event:
        source = context.get("id") if type(context) is dict else None
        if type(source) is str:
            self._heard.context(source)
        return Progress("context", _text(context, "agent"))

    def _whole(self, answer: Any, message: Json) -> tuple[Event, ...]:
        if type(answer) is not str:
            return (Notice("undecodable", f"answer {shown(answer)}"),)
        again, self._answered = self._answered, True
        review = self._heard.review(answer, message)
        if self._heard.chunks or again or not answer:
            return (review,)
        self._said = True
        return (Answer(answer), review)

    def _error(self, message: Json) -> tuple[Event, ...]:
        exception = message.get("exception")
        detail, words = _text(exception, "detail"), _error_words(exception)
        if detail in _COMPLAINTS:
            return (Rejected(words),)
        failure = Failed(Outcome.FAILED, Cause.AGENT_ERROR, words)
        if not self._heard.started and _UNSERVED.match(detail):
            failure = Failed(Outcome.REFUSED, Cause.PROTOCOL_VIOLATION, words)
        if not self._heard.started and self._keyring is not None:
            self.open = False
            self._owes_done = True
            return (failure,)
        self._failure = self._failure or failure
        return (replace(failure, final=False),)

    def _request(self, message: Json) -> tuple[Event, ...]:
        feedback, oauth = message.get("feedback"), message.get("oauth")
        if self._keyring is None:
            self.open = False
            words = "the agent asks on a connection that takes no reply"
            return (Failed(Outcome.FAILED, Cause.PROTOCOL_VIOLATION, words),)
        if type(feedback) is dict:
            return (_feedback(feedback, self._keyring),)
        url = _text(oauth, "oauth_url")
        if url:
            return (Prompt(PromptKind.OAUTH_CONSENT, url),)
        return (Notice("undecodable", f"request {shown(feedback or oauth)}"),)


_OPERATIONS: dict[int, Callable[[AnswerFrames, Json], tuple[Event, ...]]] = {
    0: AnswerFrames._answer,
    1: AnswerFrames._quit,
    2: AnswerFrames._start,
    _DONE: AnswerFrames._done,
    4: AnswerFrames._error,
    5: AnswerFrames._request,
    6: AnswerFrames._chunk,
    7: AnswerFrames._reasoning,
}


def _feedback(feedback: Json, keyring: Keyring) -> Event:
    """What the agent wants: credentials (those are kept for it), or a human's word."""
    request, question = _text(feedback, "request_id"), _text(feedback, "question")
    handed, wanted = feedback.get("credentials"), feedback.get("get_credentials")
    if handed is not None or question == "Send credentials":
        return Say(keyring.taken(request, handed))
    if wanted is not None or question == "Get credentials":
        return Say(keyring.given(request, wanted))
    schema = feedback.get("response_schema")
    return Prompt(
        PromptKind.FEEDBACK,
        request,
        question,
        timeout_ns=_timeout_ns(feedback.get("timeout_ms")),
        schema=schema if type(schema) is dict else None,
    )


def _step(step: Any) -> Event:
    if type(step) is not dict:
        return Notice("undecodable", f"step {shown(step)}")
    work = Work(
        _text(step, "module"),
        _number(step.get("timeit")),
        _number(step.get("input_nuclia_tokens")),
        _number(step.get("output_nuclia_tokens")),
    )
    return Progress("step", _text(step, "title"), work)


def _error_words(exception: Any) -> str:
    """An exception on one line.  Of what the server found wrong with a message only the place is
    shown: it repeats the message, which may hold credentials.
    """
    words = _text(exception, "detail") or "error without text"
    extra = exception.get("extra") if type(exception) is dict else None
    errors = extra.get("validation_errors") if type(extra) is dict else None
    for error in errors[:_SHOWN_ERRORS] if type(errors) is list else ():
        if type(error) is dict and type(place := error.get("loc")) is list:
            where = ".".join(part if type(part) is str else shown(part) for part in place)
            words = f"{words}; {where}: {_text(error, 'msg')}"
    return brief(words)


def _text(part: Any, name: str) -> str:
    """The text ``name`` of a part of a frame; empty where it has none."""
    value = part.get(name) if type(part) is dict else None
    return value if type(value) is str else ""


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and value >= 0 else 0.0


def _timeout_ns(timeout_ms: Any) -> int | None:
    timed = isinstance(timeout_ms, int | float) and 0 < timeout_ms <= _LONGEST_TIMEOUT_MS
    return int(timeout_ms * NS_PER_MS) if timed else None
