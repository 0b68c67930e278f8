"""A consent may be demanded before the run's first step is shown, or behind it.

The demand goes straight to the client and steps go through two queues, so NAT 1.9.0 usually shows
the demand first; which of them it is is up to the server's tasks.
"""

from __future__ import annotations

import json

import pytest
from replay import answer, story
from talk import CONSENT, HTTP, SOCKET, Talk, clocks, happenings

from loadgen.dialects.contract import Site
from loadgen.dialects.nat_sse import NatSse
from loadgen.dialects.nat_ws import NatWs
from loadgen.events import Answer, Completed, Prompt, PromptKind, Started
from loadgen.phase import Phase
from loadgen.turn import Cause, Outcome
from loadgen.wire.frame import Frame, Head

FIRST = Started("<workflow>")
URL = "http://login.test/authorize?state=s"
GIVEN = {
    "kind": "oauth_consent", "paused_ms": 100, "resumed_ms": 3100, "replied": True,
    "reply_status": 200, "reply_done_ms": 3300,
}  # fmt: skip

WIRES = pytest.mark.parametrize("wire", [HTTP, SOCKET], ids=["http", "socket"])
HEARD = {
    "long before the demand": [(50, FIRST), (100, CONSENT)],
    "just before the demand": [(99, FIRST), (100, CONSENT)],
    "in one read before the demand": [(100, FIRST, CONSENT)],
    "in one read behind the demand": [(100, CONSENT, FIRST)],
    "just behind the demand": [(100, CONSENT), (101, FIRST)],
    "while the human looks at it": [(100, CONSENT), (1500, FIRST)],
    "while the page loads": [(100, CONSENT), (3200, FIRST)],
    "when the consent is given": [(100, CONSENT), (3400, FIRST)],
}
"""When the first step is shown, and what is read at what ms."""


@pytest.mark.case("D-42")
@pytest.mark.parametrize("when", HEARD)
@WIRES
def test_a_consent_is_given_whenever_the_first_step_is_shown(wire, when):
    talk = Talk(wire)
    talk.ask_at_hand(0)
    talk.heard()
    acts = [(at, talk.hear, events) for at, *events in HEARD[when]]
    acts += [(3100, talk.until, ()), (3300, talk.visited, (200,))]
    for at, act, given in sorted(acts, key=lambda each: each[0]):
        act(at, *given)
        if 100 <= at < 3100:
            assert talk.phase is Phase.HUMAN
    assert talk.heard() == f"visit {CONSENT.key}", "once, and nothing else"
    talk.hear(4000, Answer("a"), Completed())
    assert talk.end == (Outcome.COMPLETED, None)
    assert talk.record.notices == {}
    (prompt,) = talk.row["prompts"]
    assert prompt.items() >= GIVEN.items()
    assert happenings(talk.record) == [("consent", prompt["next_event_ms"] - 3100)]
    assert clocks(talk.record)["human"] == 3000
    assert clocks(talk.record)["ttc"] == 1000
    assert talk.row["first_step_ms"] == next(at for at, *e in HEARD[when] if FIRST in e)


@pytest.mark.parametrize("order", [(FIRST, CONSENT), (CONSENT, FIRST)], ids=["first", "last"])
@WIRES
def test_a_page_that_cannot_be_reached_ends_the_turn_in_either_order(wire, order):
    talk = Talk(wire)
    talk.ask_at_hand(0)
    for at, event in enumerate(order, 100):
        talk.hear(at, event)
    talk.until(3200)
    talk.visited(3300, 0, "ConnectError")
    assert talk.end == (Outcome.FAILED, Cause.AUTH_REJECTED)


# what the frames mean


def _step(name):
    return {"id": "s1", "parent_id": "root", "type": "markdown", "name": name, "payload": "p"}


def _message(kind, parent, content, status="in_progress"):
    body = {"type": kind, "id": "x", "parent_id": parent, "content": content, "status": status}
    return Frame("text", json.dumps(body, separators=(",", ":")))


DEMAND = Frame("oauth_required", json.dumps({"execution_id": "e", "auth_url": URL}))
RAW = {"id": "s1", "parent_id": "root", "type": "WORKFLOW_START", "name": "f", "payload": "{}"}
CHUNK = {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}]}


def _streamed(route, step, chunk):
    def events(order):
        decoder = NatSse(route, Site(None, ()), {}).decoder()
        frames = {
            "head": Head(200, {"content-type": "text/event-stream; charset=utf-8"}),
            "step": Frame("field:intermediate_data", json.dumps(step)),
            "demand": DEMAND,
            "chunk": Frame("message", json.dumps(chunk)),
        }
        return [event for name in ("head", *order, "chunk") for event in decoder(frames[name])]

    return events


def _socket(order):
    decoder = NatWs().decoder()
    decoder.begin("t1")
    wanted = {"input_type": "oauth_consent", "text": URL, "timeout": None}
    frames = {
        "step": _message(
            "system_intermediate_message", "root", _step("Function Start: <workflow>")
        ),
        "demand": _message("system_interaction_message", "t1", wanted),
        "chunk": _message("system_response_message", "t1", {"text": "Hi"}),
    }
    return [event for name in (*order, "chunk") for event in decoder(frames[name])]


SHOWN = _step("Function Start: <workflow>")
LANGUAGES = {
    "steps as shown": _streamed("/v1/chat/stream", SHOWN, CHUNK),
    "a workflow's steps": _streamed("/v1/workflow/stream", SHOWN, {"value": "Hi"}),
    "raw steps": _streamed("/v1/workflow/full", RAW, {"value": "Hi"}),
    "messages": _socket,
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_demand_and_first_step_mean_the_same_in_either_order(language):
    events = LANGUAGES[language]
    first, last = events(("step", "demand")), events(("demand", "step"))
    assert story(first).removeprefix("(headers) ") == "started prompt:oauth_consent answer"
    assert story(last).removeprefix("(headers) ") == "prompt:oauth_consent started answer"
    assert answer(first) == answer(last) == "Hi"
    for told in (first, last):
        (prompt,) = (event for event in told if isinstance(event, Prompt))
        assert prompt.kind is PromptKind.OAUTH_CONSENT
    assert {repr(event) for event in first} == {repr(event) for event in last}
