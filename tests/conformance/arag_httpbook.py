"""The HTTP exchanges of Progress Agentic RAG: each is a row, played on both servers and compared
by shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from arag_post import Row
from arag_socketbook import BAD_QUESTIONS, QUESTIONS, STILL, WORDS
from arag_talk import AGENT, EPHEMERAL

EPHEMERAL_POST = f"{AGENT}/session/ephemeral"
SESSIONS = f"{AGENT}/sessions"
_CALLBACK = "/api/auth/agent/agent-0001/workflow/default/session/ephemeral/oauth/{me}/callback"
TOKENS = (
    "/api/v1/account/acc/kb/agent-0001/ephemeral_tokens",
    "/api/v1/agent/agent-0001/ephemeral_token",
    "/api/v1/ephemeral_token",
)
SESSION = {"slug": "s", "name": "n", "summary": "", "data": "", "format": "PLAIN"}


def question(words: str, **more: Any) -> dict[str, Any]:
    """A question; ``more`` are further members."""
    return {"question": words, **more}


def _turns() -> Iterator[Row]:
    for scene in ("plain", "stream", "error", "reasoning", "burst", "history", "slow 0.3", "big",
                  "feedback", "oauth"):  # fmt: skip
        yield Row(scene, EPHEMERAL_POST, question(f"#{scene} x"))
    for about, words in WORDS.items():
        yield Row(f"{about}, streamed", EPHEMERAL_POST, question(words, streaming=True))
    for word in ("feedback=1", "oauth=1"):
        yield Row(word, EPHEMERAL_POST, question(f"{STILL} {word}", streaming=True))
    agents = question(f"{STILL} agents=2", streaming=True)
    yield Row("two agents", EPHEMERAL_POST, agents, racing=True)


def _paths() -> Iterator[Row]:
    plain = question("#plain x", streaming=True)
    for flow in ("default", "ask", "nope"):
        yield Row(f"workflow {flow} in the path", f"{AGENT}/workflow/{flow}/session/s", plain)
        yield Row(f"workflow {flow} in the query", f"{EPHEMERAL_POST}?workflow_id={flow}", plain)
    both = f"{AGENT}/workflow/ask/session/s?workflow_id=nope"
    yield Row("a workflow in path and query", both, plain)
    for about, path in {
        "an unknown agent": "/api/v1/agent/nope/session/ephemeral",
        "a named session": f"{AGENT}/session/{{me}}",
        "an empty workflow": f"{EPHEMERAL_POST}?workflow_id=",
        "an unknown query": f"{EPHEMERAL_POST}?mood=good&eph-token=x&keep_open=maybe",
        "a slash too many": f"{EPHEMERAL_POST}/",
        "nothing there": "/api/v1/nothing",
        "a socket there": EPHEMERAL,
    }.items():
        yield Row(about, path, plain)
    yield Row("a socket without an upgrade", EPHEMERAL, method="GET")


def _bodies() -> Iterator[Row]:
    for about, body in QUESTIONS.items():
        yield Row(about, EPHEMERAL_POST, body)
    for about, bad in BAD_QUESTIONS.items():
        body = bad.encode() if isinstance(bad, str) else bad
        yield Row(f"bad: {about}", EPHEMERAL_POST, body)
    for about, text in {
        "no body": None,
        "an empty body": b"",
        "no JSON": b"{question",
        "two objects": b'{"question": "x"} {}',
        "bytes that are no text": b"\xff\xfe",
    }.items():
        yield Row(about, EPHEMERAL_POST, text)
    for about, kind in {"text": "text/plain", "nothing": "", "a form": "multipart/form-data",
                        "JSON of a kind": "application/vnd.x+json"}.items():  # fmt: skip
        headers = {"content-type": kind}
        yield Row(f"content type {about}", EPHEMERAL_POST, question("#plain x"), headers=headers)
    for method in ("PUT", "HEAD", "OPTIONS"):
        yield Row(f"{method} a session", EPHEMERAL_POST, method=method)
    yield Row("a method of no route", SESSIONS, method="PUT")
    for about, headers in {
        "a token": {"authorization": "Bearer x"},
        "a key": {"x-nuclia-serviceaccount": "Bearer x"},
        "an origin": {"origin": "http://example.com"},
    }.items():
        yield Row(f"headers: {about}", EPHEMERAL_POST, question("#plain x"), headers=headers)


def _sessions() -> Iterator[Row]:
    for path in (SESSIONS, "/api/v1/agent/nope/sessions"):
        yield Row(f"list {path}", path, method="GET")
        yield Row(f"create in {path}", path, SESSION)
    for query in ("page=1&size=5", "page=x", "size=x&page=y", "page=-1"):
        yield Row(f"list with {query}", f"{SESSIONS}?{query}", method="GET")
    for about, body in {
        "nothing": {},
        "no body": None,
        "no JSON": b"{",
        "an unknown member": {**SESSION, "mood": "good"},
        "a wrong format": {**SESSION, "format": "SMOKE"},
        "numbers": {"slug": 1, "name": 2, "summary": 3, "data": 4, "format": 5},
        "a slug only": {"slug": "s"},
    }.items():
        yield Row(f"create of {about}", SESSIONS, body)
        yield Row(f"change of {about}", EPHEMERAL_POST, body, method="PATCH")
    for agent in ("agent-0001", "nope"):
        path = f"/api/v1/agent/{agent}/session/s"
        yield Row(f"get {path}", path, method="GET")
        yield Row(f"delete {path}", path, method="DELETE")
        yield Row(f"change {path}", path, SESSION, method="PATCH")


def _tokens() -> Iterator[Row]:
    key = {"x-nuclia-serviceaccount": "Bearer key"}
    for path in TOKENS:
        yield Row(f"POST {path}", path, {"agent_session": "s"}, headers=key)
        yield Row(f"POST {path} with a life", path, {"agent_session": "s", "ttl": 60}, headers=key)
        yield Row(f"GET {path}", path, method="GET", headers=key)
    bearer = {"authorization": "Bearer key"}
    yield Row("with another header", TOKENS[0], {"agent_session": "s"}, headers=bearer)
    nua = {"x-nuclia-nuakey": "Bearer key"}
    yield Row("with a NUA key", TOKENS[1], {"agent_session": "s"}, headers=nua)


def _callbacks() -> Iterator[Row]:
    known = "question_id=q&state=s&account_id=local"
    for query in (known, "", "question_id=q", "state=s&account_id=local", f"{known}&error=denied"):
        yield Row(f"of nobody with {query!r}", f"{_CALLBACK}?{query}", method="GET")
    yield Row("by POST", f"{_CALLBACK}?{known}")
    for query in ("", "?code=c", "?code=c&state=s", "?error=denied&state=s"):
        yield Row(f"fixed, with {query!r}", f"/api/auth/mcp/callback{query}", method="GET")


CHAPTERS = {
    "turns": _turns,
    "paths": _paths,
    "bodies": _bodies,
    "sessions": _sessions,
    "tokens": _tokens,
    "callbacks": _callbacks,
}
ROWS = {f"http {name}: {row.name}": row for name, rows in CHAPTERS.items() for row in rows()}
