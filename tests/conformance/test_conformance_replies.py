"""Replies to prompts by HTTP: the statuses that a client can meet, the same on both servers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from bareclient import at_prompt
from counterparts import Server

TURN = "steps=0 tokens=2 token_ms=10 tag=t"
GOOD = {"response": {"type": "text", "text": "2024"}}
RESOLVED = "Interaction {interaction_id} has already been resolved"
UNKNOWN = "'Interaction {interaction_id} not found for execution {execution_id}'"


def test_a_good_reply_is_accepted_once(server: Server) -> None:
    with at_prompt(server, f"{TURN} hitl=text") as turn:
        assert turn.reply(GOOD) == (204, "")
        status, body = turn.reply(GOOD)
        assert turn.rest() == "[hitl text:2024] w0 w1 tag=t"
    assert status == 404
    assert UNKNOWN.format(**turn.frame) in body


@pytest.mark.parametrize(
    "body",
    [
        {"response": {"input_type": "text", "text": "2024"}},
        {"type": "text", "text": "2024"},
        {"response": {"type": "text"}},
        {"response": {"type": "telepathy", "text": "2024"}},
        {},
    ],
    ids=["published form", "bare", "no text", "unknown type", "nothing"],
)
def test_a_malformed_reply_is_refused_and_leaves_the_prompt_open(server: Server, body: Any) -> None:
    with at_prompt(server, f"{TURN} hitl=text") as turn:
        status, said = turn.reply(body)
        assert (status, said[:11]) == (422, '{"detail":[')
        assert turn.reply(GOOD)[0] == 204
        assert turn.rest() == "[hitl text:2024] w0 w1 tag=t"


@pytest.mark.parametrize(
    ("kind", "response", "said"),
    [
        ("radio", {"type": "radio", "selected_option": {"id": "x", "value": "x"}}, "radio:x"),
        ("radio", {"type": "text", "text": "words"}, "radio:words"),
        ("text", {"type": "radio", "selected_option": {"id": "x", "value": "x"}}, "text:x"),
    ],
    ids=["a value not offered", "a text for a choice", "a choice for a text"],
)
def test_whether_a_reply_fits_its_prompt_is_not_checked(
    server: Server, kind: str, response: Any, said: str
) -> None:
    with at_prompt(server, f"{TURN} hitl={kind}") as turn:
        assert turn.reply({"response": response})[0] == 204
        assert turn.rest() == f"[hitl {said}] w0 w1 tag=t"


def test_a_reply_after_the_time_limit_is_refused(running: Callable[[str], Server]) -> None:
    """Both servers wait at the same time: the limit of 1 s lasts 6 s."""
    words = f"{TURN} hitl=text hitl_timeout=1 hitl_catch=1 think_ms=3000"
    with (
        at_prompt(running("real"), words) as real,
        at_prompt(running("mock"), words) as mock,
    ):
        time.sleep(7)
        for turn in (real, mock):
            status, body = turn.reply(GOOD)
            assert (status, RESOLVED.format(**turn.frame) in body) == (400, True)
            assert turn.rest() == "[hitl text:TIMEOUT] w0 w1 tag=t"


def test_a_prompt_outlives_the_stream_that_showed_it(server: Server) -> None:
    with at_prompt(server, f"{TURN} hitl=text") as turn:
        turn.leave()
        time.sleep(0.3)
        assert turn.reply(GOOD)[0] == 204
