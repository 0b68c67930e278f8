"""The socket dialogues of Progress Agentic RAG, continued: replies to requests of the agent,
logins, and messages and sockets that get in each other's way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from arag_socketbook import (
    CHUNK,
    ENTRY,
    FEEDBACK,
    KEPT,
    NAMED,
    NONE_KNOWN,
    QUIT,
    RESOURCE,
    STILL,
    ask,
    streamed,
)
from arag_talk import (
    AGENT,
    EPHEMERAL,
    Close,
    Consent,
    Drop,
    Ended,
    Open,
    Quiet,
    Remind,
    Reply,
    Row,
    Say,
    Step,
    Until,
    Wait,
)

KNOWN = json.dumps({"existing_credentials": {RESOURCE: {"access_token": "t"}}})
BAD_REPLIES: dict[str, Any] = {
    "no response": {"request_id": "x"},
    "no request": {"response": "2024"},
    "a request null": {"request_id": None, "response": "2024"},
    "a number for a request": {"request_id": 7, "response": "2024"},
    "a number": {"request_id": "x", "response": 7},
    "null": {"request_id": "x", "response": None},
    "a truth": {"request_id": "x", "response": True},
    "a list": {"request_id": "x", "response": ["2024"]},
    "another operation": {"request_id": "x", "response": "2024", "op": "quit"},
    "operation null": {"request_id": "x", "response": "2024", "op": None},
    "a question": {"question": "x", "operation": 0},
    "an empty object": {},
    "no object": "[]",
    "a text": '"2024"',
}
GOOD_REPLIES: dict[str, Any] = {
    "with an operation": {"request_id": "ephemeral", "response": "2024", "op": "user_response"},
    "with an unknown member": {"request_id": "ephemeral", "response": "2024", "mood": "good"},
    "to another request": {"request_id": "other", "response": "2024"},
    "that is empty": {"request_id": "", "response": ""},
    "that is no JSON": {"request_id": "ephemeral", "response": "{not json"},
    "against the schema": {"request_id": "ephemeral", "response": json.dumps({"response": 7})},
}


def _feedback() -> Iterator[Row]:
    asked = [ask("#feedback x"), FEEDBACK]
    for about, bad in BAD_REPLIES.items():
        does = [*asked, Say(bad), Until("error"), Reply("2024"), Ended()]
        yield Row(f"bad reply: {about}", does)
    for about, good in GOOD_REPLIES.items():
        yield Row(f"a reply {about}", [*asked, Say(good), Ended()])
    yield Row("a reply that is no JSON text", [*asked, Say("{"), Ended()])
    yield Row("a reply of bytes", [*asked, Say(b"{}"), Ended()])
    slow = [streamed(f"{STILL} feedback=1 think_ms=600"), FEEDBACK, Reply("2024"), Until("step")]
    yield Row("a reply twice", [*slow, Reply("2025"), Ended()])
    yield Row("a reply before it is wanted", [ask("#slow 0.5"), Until("step"), Reply("x"), Ended()])
    kept = [Open(KEPT), ask("#feedback x"), FEEDBACK, Reply("2024"), Until()]
    again = [Reply("2024"), Until("error"), ask("#plain x"), Until(), Quiet()]
    yield Row("a reply behind the turn", [*kept, *again])
    yield Row("lost while feedback is wanted", [*asked, Drop(), Wait(), Open(on="b"),
                                                ask("#plain x", "b"), Ended("b")])  # fmt: skip
    gone = [
        Open(NAMED),
        *asked,
        Drop(),
        Open(NAMED, "b"),
        Reply("2024", on="b"),
        Until("error", on="b"),
    ]
    yield Row("feedback from another socket", [*gone, ask("#plain x", "b"), Ended("b")])


def _logins() -> Iterator[Row]:
    asked = [ask("#oauth x"), FEEDBACK]
    back = Consent(blindly=True)
    wanted = [*asked, Reply(NONE_KNOWN), Until("oauth")]
    made = [back, FEEDBACK, Reply("{}"), Ended()]
    yield Row("made", [*wanted, *made])
    yield Row("made, and not acknowledged", [*wanted, back, FEEDBACK, Quiet(1.0)])
    yield Row("credentials known", [*asked, Reply(KNOWN), Ended()])
    for about, said in {
        "nothing": "{}",
        "null": json.dumps({"existing_credentials": None}),
        "of others": json.dumps({"existing_credentials": {"https://other": {"a": "b"}}}),
        "of a wrong form": json.dumps({"existing_credentials": {RESOURCE: "t"}}),
        "that are no JSON": "none",
        "an empty text": "",
    }.items():
        yield Row(f"credentials known: {about}", [*asked, Reply(said), Until("oauth"), *made])
    early = [*wanted, Reply("{}"), Until("error"), *made]
    yield Row("a reply before the consent", early)
    kept = [Open(KEPT), *wanted, back, FEEDBACK, Reply("{}"), Until()]
    yield Row("and in the next turn", [*kept, *asked, Remind(), Until(), Quiet()])
    yield Row("in a named session", [Open(NAMED), *wanted, *made])
    flow = Open(f"{AGENT}/workflow/ask/session/{{me}}/ws")
    yield Row("in another workflow", [flow, *wanted, *made])
    yield Row("the socket is lost before the consent", [*wanted, Drop(), back])


def _scripted_logins() -> Iterator[Row]:
    words = streamed(f"{STILL} oauth=1")
    given = [words, FEEDBACK, Reply(NONE_KNOWN), Until("oauth"), Consent(), FEEDBACK, Reply("{}")]
    yield Row("made", [*given, Ended()])
    again = [words, FEEDBACK, Remind()]
    for about, path in {"an ephemeral session": EPHEMERAL, "a named session": NAMED}.items():
        kept = Open(f"{path}?keep_open=true")
        yield Row(
            f"kept for the next turn of {about}", [kept, *given, Until(), *again, Until(), Quiet()]
        )
    yield Row(
        "kept for the next socket", [Open(NAMED), *given, Ended(), Open(NAMED), *again, Ended()]
    )
    other = Open(f"{AGENT}/session/other-{{me}}/ws")
    strange = [Until("oauth"), Consent(), FEEDBACK, Reply("{}"), Ended()]
    yield Row("kept for another session", [Open(NAMED), *given, Ended(), other, *again, *strange])
    yield Row("of nobody's token", [words, FEEDBACK, Reply(KNOWN), *strange])


def _overlaps() -> Iterator[Row]:
    kept = Open(KEPT)
    running: list[Step] = [kept, ask("#slow 0.6"), Until("step")]
    yield Row("a question before DONE", [*running, ask("#plain two"), Until(), Quiet(0.6)])
    then = [*running, ask("#plain two"), Until(), ask("#plain three"), Until(), Quiet()]
    yield Row("a question before DONE, then one behind it", then)
    yield Row("no JSON while the turn runs", [*running, Say("{"), Ended()])
    yield Row("bytes while the turn runs", [*running, Say(b"{}"), Quiet(1.0)])
    yield Row("a bad question while the turn runs", [*running, Say({}), Until(), Quiet()])
    yield Row("two questions at once", [kept, ask("#slow 0.5"), ask("#plain x"), Until(), Quiet()],
              racing=True)  # fmt: skip
    chunks = streamed("steps=0 tokens=8 token_ms=60 tag=t")
    yield Row("quit between chunks", [chunks, CHUNK, QUIT, Ended()], racing=True)
    yield Row("three turns on a socket", [kept, *([streamed(STILL), Until()] * 3), Quiet()])
    failing = [kept, ask("#error x"), Until(), ask("#plain x"), Until(), Quiet()]
    yield Row("a turn behind one that failed", failing)
    for about, path in {"named": NAMED, "ephemeral": EPHEMERAL}.items():
        first, second = streamed(f"{STILL} tag=a"), streamed(f"{STILL} tag=b", "b")
        both = [Open(path), Open(path, "b"), first, second, Ended(), Ended("b")]
        yield Row(f"two sockets of one {about} session", both)
    history = [Open(NAMED), ask("#history x"), Ended()]
    slow: list[Step] = [Open(NAMED), ask("#slow 0.4"), Until("step")]
    for about, leaving in {"closes": Close(), "is lost": Drop()}.items():
        yield Row(
            f"the turn of a client that {about} is done", [*slow, leaving, Wait(1.0), *history]
        )
    yield Row("a turn that failed", [Open(NAMED), ask("#error x"), Ended(), *history])
    never = [Open(NAMED), ask("#feedback-timeout x"), FEEDBACK, Drop(), Wait(2.2)]
    yield Row("a turn that nobody answered", [*never, *history])
    given = ask("#plain x", chat_history=[ENTRY, ENTRY])
    yield Row("a turn with a history of the client's", [Open(NAMED), given, Ended(), *history])
    leaves = [chunks, CHUNK, Drop(), Wait(), Open(on="b"), streamed(STILL, "b"), Ended("b")]
    yield Row("the client is lost between chunks", leaves)


CHAPTERS = {
    "feedback": _feedback,
    "logins": _logins,
    "scripted logins": _scripted_logins,
    "overlaps": _overlaps,
}
ROWS = {f"ws {name}: {row.name}": row for name, rows in CHAPTERS.items() for row in rows()}
