"""NAT's single-answer routes: one POST for each turn, answered at once, or accepted and polled.

The answer is the whole answer: such a route shows no progress, so none is reported.  Once a run
asks the human or wants a login, the request is answered 202, and the turn goes on out of sight:

==============================  ================================================================
answer                          events
==============================  ================================================================
200, JSON                       `Answer` and `Completed`; without text failed, empty_answer
202, and each poll, ``status``
  ``running``                   `Pending`
  ``interaction_required``      `Pending`, and `Prompt` the first time that this one is shown
  ``oauth_required``            `Pending`, and the consent's `Prompt` likewise
  ``completed``                 as 200, from ``result``
  ``failed``                    `Failed`, agent_error
422 ``workflow_error``          `Failed`, agent_error: the run failed
404 to a poll                   `Failed`, agent_error: the server does not know the run
another status                  the table of `loadgen.dialects.refusal`
2xx that is not our JSON        `Failed`, protocol_violation
cut                             incomplete, stream_cut
==============================  ================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson
from pydantic import Field

from loadgen.clock import NS_PER_S
from loadgen.dialects import nat, nat_http
from loadgen.dialects.contract import (
    Ask,
    Identity,
    OptionModel,
    Options,
    Plain,
    PlainDecoder,
    Reply,
    Site,
    Wire,
    read_options,
)
from loadgen.dialects.nat_http import Body
from loadgen.dialects.refusal import brief, outcome_of, refused, shown
from loadgen.events import Answer, Completed, Event, Failed, Notice, Pending, Prompt
from loadgen.turn import Cause, Outcome
from loadgen.wire.frame import AnyFrame, End, Frame, Garbage, Head, Request

SINGLES: Mapping[str, Body] = {
    "/v1/chat": Body.CHAT,
    "/chat": Body.CHAT,
    "/v1/chat/completions": Body.CHAT,
    "/v1/workflow": Body.WORKFLOW,
    "/generate": Body.WORKFLOW,
}
"""Single-answer routes as the server calls them; a proxy's prefix before them does not matter.

``/chat`` and ``/generate`` never answer 202, ``/v1/chat/completions`` only with the server's
``enable_interactive_extensions``.
"""

_WORKFLOW_ERROR = "workflow_error"


class NatPollOptions(OptionModel):
    """``input``: the workflow's input parameter; ``messages`` sends the conversation.  ``poll_s``:
    seconds between one look at a pending run and the next.
    """

    input: str = Field(nat_http.INPUT, min_length=1)
    poll_s: float = Field(0.5, gt=0, le=3600)


class NatPoll(Plain):
    """The dialect ``nat-poll``.

    Raises `ConfigError` for a route that is not in `SINGLES`, and for an option that does nothing
    on its route.
    """

    name = "nat-poll"
    wire = Wire.HTTP

    def __init__(
        self, route: str | None = None, site: Site | None = None, options: Options | None = None
    ) -> None:
        self.route = route or "/v1/chat"
        self._route = nat_http.find_route(self.name, self.route, SINGLES, site or Site())
        self._options = read_options(NatPollOptions, self.name, options or {})
        self._body = SINGLES[self._route.known]
        if self._body is not Body.WORKFLOW and "input" in self._options.model_fields_set:
            able = [name for name, body in SINGLES.items() if body is Body.WORKFLOW]
            raise nat_http.only_on(self.name, "input", able, self.route)

    def ask(self, ask: Ask, identity: Identity) -> Request:
        """The question as the route takes it."""
        parameter = self._options.input
        return nat_http.question(self.route, self._body, parameter, ask, identity, stream=False)

    def reply(self, reply: Reply, ask: Ask, identity: Identity) -> Request:
        """The reply to a prompt; the next polls show what came of it."""
        return nat_http.reply(reply, ask, identity)

    def decoder(self) -> PollDecoder:
        """A decoder for one turn: its first answer and its polls."""
        return PollDecoder(self._body, self._route, int(self._options.poll_s * NS_PER_S))

    def replied(self, status: int, body: str) -> Event:
        """What the answer to a reply means; the run decides."""
        return nat_http.replied(status, body)

    def poll(self, key: str, ask: Ask, identity: Identity) -> Request:
        """The request for the state of the run."""
        return nat_http.look(key, ask, identity)

    def reconcile(self, execution: str, ask: Ask, identity: Identity) -> Request | None:
        """The request for what became of a run that was given up."""
        return nat_http.reconcile(self._route, execution, ask, identity)

    def state(self, status: int, body: str) -> str:
        """What the server says of the run."""
        return nat_http.state(status, body)


class PollDecoder(PlainDecoder):
    """The frames of one answer, and the polls after it, to events; see the module's table."""

    __slots__ = (
        "_after_ns", "_asked", "_body", "_family", "_head", "_key", "_over", "_read", "_route",
    )  # fmt: skip

    def __init__(self, family: Body, route: nat_http.Route, after_ns: int) -> None:
        self._family = family
        self._route = route
        self._after_ns = after_ns
        self._head: Head | None = None
        self._body = ""
        self._key: str | None = None
        self._asked: set[str] = set()
        self._read = False
        """Whether the first answer has ended."""
        self._over = False
        """Whether the turn has."""

    def __call__(self, frame: AnyFrame) -> tuple[Event, ...]:
        """What ``frame`` means."""
        if self._read or self._over:
            return () if type(frame) is End else (Notice("late"),)
        if type(frame) is Head:
            self._head = frame
            coding = frame.headers.get("content-encoding")
            seen = Notice("headers", str(frame.status))
            return (seen, Notice("encoding", coding)) if coding else (seen,)
        if type(frame) is Frame:
            self._body = self._body or frame.data
            return (Notice("body"),)
        if type(frame) is End:
            self._read = True
            return self._answered(frame)
        if type(frame) is Garbage:
            return self._broken(brief(frame.detail))
        return (Notice("unknown", type(frame).__name__),)

    def polled(self, status: int, body: str) -> tuple[Event, ...]:
        """What the answer to a poll means."""
        if self._over:
            return (Notice("late"),)
        if 200 <= status < 300:
            told = nat.parse(body)
            if told is None:
                return self._broken(f"the state of the run is no JSON object: {brief(body)}")
            return self._standing(told)
        outcome, cause = outcome_of(status)
        detail = f"poll got HTTP {status}: {brief(body)}"
        if status == 404:
            outcome, cause = Outcome.FAILED, Cause.AGENT_ERROR
            detail = f"the server does not know the execution: {brief(body)}"
        return self._end(Failed(outcome, cause, detail))

    def _answered(self, end: End) -> tuple[Event, ...]:
        """The first answer is all here, or will never be."""
        head = self._head
        if head is None or (head.status in (200, 202) and not end.clean):
            cut = Failed(Outcome.INCOMPLETE, Cause.STREAM_CUT, "the connection was cut")
            return self._end(cut)
        body = self._body or end.pending
        error = nat.parse(body) if head.status == 422 else None
        if error is not None and error.get("code") == _WORKFLOW_ERROR:
            return self._failed(nat.error_text(error))
        if head.status not in (200, 202) or not _is_json(head):
            return self._end(refused(*head, body, "JSON"))
        try:
            told = orjson.loads(body)
        except ValueError:
            return self._broken(f"the answer is no JSON: {brief(body)}")
        return self._result(told) if head.status == 200 else self._accepted(told)

    def _accepted(self, told: Any) -> tuple[Event, ...]:
        if type(told) is not dict:
            return self._broken(f"HTTP 202 without a JSON object: {brief(self._body)}")
        self._key = self._route.key(told.get("status_url"))
        if self._key is None:
            return self._end(nat_http.elsewhere("status_url", told.get("status_url")))
        return self._standing(told)

    def _standing(self, told: nat.Json) -> tuple[Event, ...]:
        """Where the run stands, as 202 and as each poll tells it."""
        status = told.get("status")
        stands = _STATES.get(status) if type(status) is str else None
        if stands is None:
            return self._broken(f"a run in the state {shown(status)}")
        return stands(self, told)

    def _running(self, told: nat.Json) -> tuple[Event, ...]:
        if self._key is None:
            return self._broken("a run without status_url")
        return (Pending(self._key, self._after_ns, nat_http.execution_of(told)),)

    def _interaction(self, told: nat.Json) -> tuple[Event, ...]:
        return self._wants(told, "interaction_id", self._route.prompt(told))

    def _oauth(self, told: nat.Json) -> tuple[Event, ...]:
        return self._wants(told, "oauth_state", nat_http.consent(told))

    def _wants(self, told: nat.Json, name: str, prompt: Prompt | Failed) -> tuple[Event, ...]:
        """The run waits for somebody; each poll repeats a wish, called by ``name``, until it is
        met.
        """
        pending = self._running(told)
        if self._over:
            return pending
        if isinstance(prompt, Failed):
            return self._end(prompt)
        wish = told.get(name)
        wish = wish if type(wish) is str else prompt.key
        if wish in self._asked:
            return pending
        self._asked.add(wish)
        return (*pending, prompt)

    def _completed(self, told: nat.Json) -> tuple[Event, ...]:
        return self._result(told.get("result"))

    def _run_failed(self, told: nat.Json) -> tuple[Event, ...]:
        return self._failed(nat.error_text(told.get("error")))

    def _result(self, result: Any) -> tuple[Event, ...]:
        """The route's answer: a chat completion, ``{"value": ...}``, or whatever a workflow
        gives.
        """
        if type(result) is dict:
            if result.get("code") == _WORKFLOW_ERROR:
                return self._failed(nat.error_text(result))
            if type(result.get("choices")) is list:
                result = _message_of(result["choices"])
            elif "value" in result:
                result = result["value"]
            elif self._family is Body.CHAT and (error := result.get("error")):
                return self._failed(f"in-band error {nat.error_text(error)}")
        if self._family is Body.CHAT and type(result) not in (str, type(None)):
            return self._broken(f"no chat completion: {shown(result)}")
        if result is None or result == "":
            empty = Failed(Outcome.FAILED, Cause.EMPTY_ANSWER, "the answer has no text")
            return self._end(empty)
        return (Answer(nat.text_of(result)), *self._end(Completed()))

    def _failed(self, detail: str) -> tuple[Event, ...]:
        return self._end(Failed(Outcome.FAILED, Cause.AGENT_ERROR, detail))

    def _broken(self, detail: str) -> tuple[Event, ...]:
        return self._end(Failed(Outcome.FAILED, Cause.PROTOCOL_VIOLATION, detail))

    def _end(self, event: Event) -> tuple[Event, ...]:
        self._over = True
        return (event,)


_STATES: dict[str, Callable[[PollDecoder, nat.Json], tuple[Event, ...]]] = {
    "running": PollDecoder._running,
    "interaction_required": PollDecoder._interaction,
    "oauth_required": PollDecoder._oauth,
    "completed": PollDecoder._completed,
    "failed": PollDecoder._run_failed,
}


def _message_of(choices: list[Any]) -> Any:
    """The content of the first choice; only one is asked for."""
    message = choices[0].get("message") if choices and type(choices[0]) is dict else None
    return message.get("content") if type(message) is dict else None


def _is_json(head: Head) -> bool:
    # NAT writes the header twice on these routes; the values are joined by a comma.
    media = head.headers.get("content-type", "").replace(",", ";").partition(";")[0].strip().lower()
    return media == "application/json" or media.endswith("+json")
