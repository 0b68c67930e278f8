"""The socket dialogues of Progress Agentic RAG: each is a row, played on both servers and compared.

``recorded`` holds every case of the recordings of the real server; the other chapters are about
one thing each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from arag_talk import (
    AGENT,
    EPHEMERAL,
    Close,
    Ended,
    Open,
    Quiet,
    Reply,
    Row,
    Say,
    Until,
    Wait,
)

STILL = "steps=1 step_ms=60 think_ms=60 tokens=2 token_ms=60 tag=t"
"""Time enough for frames to come in order."""

RESOURCE = "https://mcp.example.com/mcp"
NONE_KNOWN = json.dumps({"existing_credentials": {}})
KEPT = f"{EPHEMERAL}?eph-token=t&keep_open=true"
NAMED = f"{AGENT}/session/{{me}}/ws"
QUIT = Say({"question": "", "operation": 1})
FEEDBACK = Until("feedback")
CHUNK = Until("chunk")
MIB = 1 << 20


def ask(words: str, on: str = "a", **more: Any) -> Say:
    """A good question; ``more`` are further members, or others."""
    return Say({"question": words, "operation": 0} | more, on)


def streamed(words: str, on: str = "a", **more: Any) -> Say:
    """A good question whose answer is to come in chunks."""
    return ask(words, on, streaming=True, **more)


def _recorded() -> Iterator[Row]:
    plain = [ask("#plain x"), Ended()]
    yield Row("plain", plain)
    yield Row("stream", [streamed("#plain x"), Ended()])
    for scene in ("stream", "error", "reasoning", "burst", "history"):
        yield Row(scene, [ask(f"#{scene} x"), Ended()])
    yield Row("slow", [ask("#slow 0.5"), Ended()])
    kept = [Open(KEPT), ask("#plain one"), Until()]
    yield Row("keep_open, a second question", [*kept, ask("#plain two"), Until(), Quiet(1.0)])
    yield Row("quit as the first message", [QUIT, Ended()])
    yield Row("quit after DONE with keep_open", [*kept, QUIT, Until(), Quiet(1.0)])
    yield Row("quit while the turn runs", [ask("#slow 1"), Until("step"), QUIT, Ended()])
    yield Row(
        "quit while feedback is wanted",
        [ask("#feedback x"), FEEDBACK, QUIT, Quiet(0.5), Reply("2024"), Ended()],
    )
    yield Row(
        "a second question while the turn runs",
        [ask("#slow 1"), Until("step"), ask("#plain again"), Ended()],
    )
    yield Row("no question, then a good one", [Say({"operation": 0}), Until("error"), *plain])
    yield Row("no JSON", [Say("{question"), Ended()])
    yield Row("bytes", [Say(b'{"question":"x","operation":0}'), Ended()])
    unknown = {"workflow": f"{EPHEMERAL}?workflow_id=nope",
               "agent": "/api/v1/agent/nope/session/ephemeral/ws"}  # fmt: skip
    for about, path in unknown.items():
        yield Row(f"an unknown {about}", [Open(path), Ended()])
        yield Row(f"an unknown {about}, asked at once", [Open(path), ask("#plain x"), Ended()])
    yield Row("from_cursor", [Open(f"{EPHEMERAL}?from_cursor=3"), *plain])
    yield Row(
        "a named session, history",
        [
            Open(NAMED), ask("#plain one"), Ended(),
            Open(NAMED), ask("#history x"), Ended(),
            Open(NAMED), ask("#history x"), Ended(),
        ],
    )  # fmt: skip
    answered = json.dumps({"response": "2024"})
    yield Row("feedback answered", [ask("#feedback x"), FEEDBACK, Reply(answered), Ended()])
    wrong = Reply({"a": 1}, "x")
    yield Row(
        "feedback answered by an object, then by a text",
        [ask("#feedback x"), FEEDBACK, wrong, Until("error"), Reply("2024", "x"), Ended()],
    )
    documented = {"request_id": "ephemeral", "existing_credentials": {RESOURCE: {"t": "t"}}}
    yield Row(
        "credentials as documented",
        [ask("#oauth x"), FEEDBACK, Say(documented), Quiet(1.0)],
    )
    late = [ask("#feedback-timeout x"), FEEDBACK]
    yield Row("feedback that is never answered", [*late, Quiet(4.0)])
    yield Row("feedback answered too late", [*late, Quiet(3.0), Reply("too late", "late"), Ended()])
    yield Row(
        "a login that nobody makes",
        [ask("#oauth x"), FEEDBACK, Reply(NONE_KNOWN), Until("oauth"), Quiet(1.0)],
    )
    yield Row(
        "the client closes while the turn runs",
        [ask("#slow 0.5"), Until("step"), Close(), Wait(), Open(on="b"), ask("#plain x", "b"),
         Ended("b")],
    )  # fmt: skip
    yield Row("a frame that is too big for the client", [Open(limit=MIB), ask("#big x"), Ended()])
    yield Row("a frame of 1.5 MB", [Open(limit=4 * MIB), ask("#big x"), Ended()])


def _paths() -> Iterator[Row]:
    plain = [streamed("#plain x"), Ended()]
    for flow in ("default", "ask", "nope", "Ask", "a%20b"):
        path = f"{AGENT}/workflow/{flow}/session/ephemeral/ws"
        yield Row(f"workflow {flow} in the path", [Open(path), *plain])
        yield Row(
            f"workflow {flow} in the query", [Open(f"{EPHEMERAL}?workflow_id={flow}"), *plain]
        )
    both = f"{AGENT}/workflow/ask/session/ephemeral/ws?workflow_id=nope"
    yield Row("a workflow in path and query", [Open(both), *plain])
    queries = {
        "no workflow": "workflow_id=",
        "two workflows": "workflow_id=nope&workflow_id=ask",
        "no token": "eph-token=",
        "something unknown": "mood=good",
        "a cursor that is no number": "from_cursor=x",
        "sessions that must exist": "create_session_if_not_exists=false",
        "sessions that may exist": "create_session_if_not_exists=true",
        "a wish that is none": "create_session_if_not_exists=maybe",
        "keep_open twice": "keep_open=true&keep_open=false",
    }
    for about, query in queries.items():
        yield Row(f"a query with {about}", [Open(f"{EPHEMERAL}?{query}"), *plain])
    for value in ("1", "0", "yes", "no", "on", "off", "TRUE", "t", "", "maybe", "2"):
        path = f"{EPHEMERAL}?keep_open={value}"
        yield Row(f"keep_open={value}", [Open(path), streamed("#plain x"), Until(), Quiet(0.6)])
    sessions = {
        "a named session": "{me}",
        "a session with a blank": "{me}%20x",
        "a session beyond ASCII": "{me}%C3%A4",
        "a long session": "{me}" + "x" * 500,
    }
    for about, session in sessions.items():
        path = f"{AGENT}/session/{session}/ws"
        yield Row(about, [Open(path), ask("#feedback x"), FEEDBACK, Reply("2024"), Ended()])
    for about, path in {
        "no session": f"{AGENT}/session//ws",
        "no socket there": f"{AGENT}/session/ephemeral",
        "nothing there": "/api/v1/nothing",
        "a slash too many": f"{EPHEMERAL}/",
    }.items():
        yield Row(about, [Open(path), *plain])


QUESTIONS: dict[str, Any] = {
    "nothing but a question": {"question": "#plain x"},
    "an unknown member": {"question": "#plain x", "mood": "good"},
    "all members": {
        "question": "#plain x", "operation": 0, "headers": {"x-a": "b"}, "arguments": {"c": "d"},
        "chat_history": None, "streaming": True,
    },
    "an empty question": {"question": ""},
    "a question beyond ASCII": {"question": "#plain caf\u00e9 \u6f22\u5b57 \U0001f600 a\u2028b"},
    "a long question": {"question": "#plain " + "x" * 200_000},
    "operation as a text": {"question": "#plain x", "operation": "0"},
    "operation as a float": {"question": "#plain x", "operation": 0.0},
    "operation false": {"question": "#plain x", "operation": False},
    "operation quit": {"question": "#plain x", "operation": 1},
    "streaming as a text": {"question": "#plain x", "streaming": "true"},
    "streaming as yes": {"question": "#plain x", "streaming": "yes"},
    "streaming as a number": {"question": "#plain x", "streaming": 1},
    "streaming off": {"question": "#plain x", "streaming": "off"},
    "no headers": {"question": "#plain x", "headers": {}},
    "history null": {"question": "#history x", "chat_history": None},
    "history empty": {"question": "#history x", "chat_history": []},
    "history of one": {
        "question": "#history x", "chat_history": [{"question": "a", "answer": "b"}],
    },
    "history with another member": {
        "question": "#history x", "chat_history": [{"question": "a", "answer": "b", "mood": 1}],
    },
}  # fmt: skip

ENTRY = {"question": "a", "answer": "b"}
BAD_QUESTIONS: dict[str, Any] = {
    "no question": {"operation": 0},
    "a question null": {"question": None},
    "a number for a question": {"question": 7},
    "a list for a question": {"question": ["x"]},
    "a truth for a question": {"question": True},
    "an unknown operation": {"question": "x", "operation": 2},
    "a negative operation": {"question": "x", "operation": -1},
    "operation null": {"question": "x", "operation": None},
    "operation a word": {"question": "x", "operation": "question"},
    "operation a fraction": {"question": "x", "operation": 0.5},
    "operation a list": {"question": "x", "operation": []},
    "headers null": {"question": "x", "headers": None},
    "headers a list": {"question": "x", "headers": ["a"]},
    "headers a text": {"question": "x", "headers": "a"},
    "a number for a header": {"question": "x", "headers": {"a": 1}},
    "null for a header": {"question": "x", "headers": {"a": None, "b": {}}},
    "arguments null": {"question": "x", "arguments": None},
    "a number for an argument": {"question": "x", "arguments": {"a": 1}},
    "history a text": {"question": "x", "chat_history": "a"},
    "history an object": {"question": "x", "chat_history": ENTRY},
    "history of texts": {"question": "x", "chat_history": ["a", ENTRY, 7, None]},
    "history without answers": {"question": "x", "chat_history": [{"question": "a"}, {}]},
    "history of numbers": {"question": "x", "chat_history": [{"question": 1, "answer": None}]},
    "streaming null": {"question": "x", "streaming": None},
    "streaming a word": {"question": "x", "streaming": "maybe"},
    "streaming two": {"question": "x", "streaming": 2},
    "streaming a list": {"question": "x", "streaming": []},
    "everything wrong": {
        "question": 7, "operation": 9, "headers": 1, "arguments": 1, "chat_history": 1,
        "streaming": 9,
    },
    "an empty object": {},
    "a reply": {"request_id": "ephemeral", "response": "2024"},
    "a list": "[]",
    "a list of a question": '[{"question": "x"}]',
    "a number": "7",
    "a fraction": "7.5",
    "a truth": "true",
    "null": "null",
    "a JSON text": '"question"',
}  # fmt: skip

NOT_JSON: dict[str, str | bytes] = {
    "an empty text": "",
    "a word": "question",
    "half an object": '{"question": "x"',
    "two objects": '{"question": "x"} {"question": "x"}',
    "a blank line behind": '{"question": "#plain x"}\n\n',
    "no bytes": b"",
    "bytes that are no text": b"\xff\xfe",
}


def _questions() -> Iterator[Row]:
    for about, question in QUESTIONS.items():
        yield Row(about, [Say(question), Ended()])
    pieces = ('{"question": "#pl', "ain x", '", "streaming": true}')
    yield Row("a question in fragments", [Say(pieces), Ended()])
    for about, bad in BAD_QUESTIONS.items():
        yield Row(f"bad: {about}", [Say(bad), Until("error"), ask("#plain x"), Ended()])
    for about, text in NOT_JSON.items():
        yield Row(f"no JSON: {about}", [Say(text), Ended()])
    twice = [Say({"operation": 0}), Until("error"), Say({"question": 7}), Until("error")]
    number = [Say('{"question": NaN}'), Until("error"), ask("#plain x"), Ended()]
    yield Row("bad: what is no number", number)
    yield Row("bad: two times", [*twice, ask("#plain x"), Ended()])
    yield Row("nothing is asked", [Quiet(0.6), ask("#plain x"), Ended()])


WORDS = {
    "steps": "steps=3 step_ms=40 tokens=2 token_ms=30 tag=t",
    "no steps": "steps=0 think_ms=60 tokens=2 token_ms=30 tag=t",
    "no tag": "steps=1 step_ms=40 tokens=3 token_ms=30",
    "no tokens": "steps=1 step_ms=40 tokens=0 token_ms=30 tag=t",
    "a thought": f"{STILL} reasoning=2",
    "a big context": f"{STILL} big_kb=3",
    "a context of 1.2 MB": f"{STILL} big_kb=1200",
    "long steps and chunks": f"{STILL} step_kb=1 token_len=9",
    "odd characters": f"{STILL} odd=1",
    "a chart": f"{STILL} visualizations=1",
    "three charts": f"{STILL} visualizations=3",
    "a restart": f"{STILL} restarts=1",
    "a context that is lost": f"{STILL} lost_context=1",
    "fails after a chunk": f"{STILL} fail_after=1",
    "fails at start": f"{STILL} fail=start",
    "fails in a step": f"{STILL} fail=steps",
    "fails before the answer": f"{STILL} fail=answer",
    "fails in mid answer": f"{STILL} fail=mid",
    "fails at the end": f"{STILL} fail=end",
}
KINDS: dict[str, Any] = {
    "1": "2024",
    "string": "2024",
    "enum": "2024",
    "number": 7,
    "integer": 7,
    "boolean": True,
    "array": ["motor"],
    "object": {"from": "2024", "to": 2025, "split": {"by": "month"}},
    "tool": True,
    "free": "nothing",
}


def _words() -> Iterator[Row]:
    for about, words in WORDS.items():
        yield Row(f"{about}, streamed", [streamed(words), Ended()])
        yield Row(f"{about}, in one piece", [ask(words), Ended()])
    many = streamed(f"{STILL} agents=2")
    yield Row("two agents, streamed", [many, Ended()], racing=True)
    yield Row("two agents, in one piece", [ask(f"{STILL} agents=2"), Ended()], racing=True)
    for kind, value in KINDS.items():
        key = "call_tool" if kind == "tool" else "response"
        reply = Reply(json.dumps({key: value}))
        words = f"{STILL} feedback={kind}"
        yield Row(f"feedback of kind {kind}", [streamed(words), FEEDBACK, reply, Ended()])
    reply = Reply(json.dumps({"response": "2024"}))
    for prompt in ("text", "radio", "checkbox", "dropdown", "binary_choice"):
        words = f"{STILL} hitl={prompt}"
        yield Row(f"the toolkit's prompt {prompt}", [streamed(words), FEEDBACK, reply, Ended()])
    yield Row("the toolkit's notification", [streamed(f"{STILL} hitl=notification"), Ended()])
    for where in ("start", "mid", "end"):
        words = f"{STILL} feedback=1 hitl_at={where}"
        yield Row(f"feedback at {where}", [streamed(words), FEEDBACK, reply, Ended()])
    failing = streamed(f"{STILL} feedback=1 fail=answer")
    yield Row("a failure behind feedback", [failing, FEEDBACK, reply, Ended()])
    two = [streamed(f"{STILL} feedback=string,enum"), FEEDBACK, reply, FEEDBACK, reply, Ended()]
    yield Row("two feedbacks", two)
    yield Row("feedback of no kind", [streamed(f"{STILL} feedback=telepathy"), Ended()])
    late = [streamed(f"{STILL} feedback=1 feedback_timeout=0.5"), FEEDBACK]
    yield Row("feedback too late", [*late, Quiet(1.5), reply, Ended()])
    yield Row("feedback never", [*late, Quiet(1.5)])
    kept = [Open(KEPT), streamed(STILL), Until(), streamed(f"{STILL} feedback=1"), FEEDBACK, reply]
    yield Row("feedback in the second turn", [*kept, Until(), Quiet()])


CHAPTERS = {
    "recorded": _recorded,
    "paths": _paths,
    "questions": _questions,
    "words": _words,
}
ROWS = {f"ws {name}: {row.name}": row for name, rows in CHAPTERS.items() for row in rows()}
