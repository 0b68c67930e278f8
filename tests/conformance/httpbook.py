"""The HTTP exchanges of the suite: each is a row, played on both servers and compared by shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from exchange import Ask, Consent, Leave, Pause, Reply, Row

STEADY = "steps=1 step_ms=60 think_ms=60 tokens=2 token_ms=60 tag=t"
"""Time enough for frames to come in order."""

STILL = f"{STEADY} step_kind=none"
PROMPT_KINDS = ("text", "binary_choice", "radio", "checkbox", "dropdown", "notification")


def chat(words: str, **more: Any) -> dict[str, Any]:
    """A question as OpenAI's clients put it."""
    return {"messages": [{"role": "user", "content": words}], **more}


def flow(words: str) -> dict[str, Any]:
    """A question as a workflow's own input."""
    return {"input_message": words}


def talk(words: str) -> dict[str, Any]:
    """A question as a workflow's own input, in a conversation."""
    return chat(words)


def completions(words: str, **more: Any) -> dict[str, Any]:
    """A question whose answer is to be streamed."""
    return chat(words, stream=True, **more)


SINGLES = {
    "/v1/chat": chat,
    "/v1/workflow": flow,
    "/v1/chat/completions": chat,
    "/chat": chat,
    "/generate": flow,
}
STREAMS = {
    "/v1/chat/stream": chat,
    "/v1/workflow/stream": flow,
    "/v1/workflow/full": flow,
    "/v1/chat/completions": completions,
    "/chat/stream": chat,
    "/generate/stream": flow,
    "/generate/full": flow,
}
POLLED = ("/v1/chat", "/v1/workflow")
ASKING = ("/v1/chat/stream", "/v1/workflow/stream", "/v1/workflow/full")

QUESTIONS = {
    "plain": STEADY,
    "a trace id": f"{STILL} trace=1",
    "odd characters": f"{STILL} odd=1",
    "a model that streams": f"{STEADY} llm=1",
    "a function": f"{STEADY} step_kind=function",
    "fails at start": f"{STILL} fail=start",
    "fails in a step": f"{STEADY} fail=steps",
    "fails in mid answer": f"{STILL} fail=mid",
    "fails at the end": f"{STILL} fail=end",
    "asks": f"{STILL} hitl=text",
}
"""Asked on every route, those that cannot ask their human as well."""

RACING = ("a model that streams", "a trace id", "fails in a step")

FILTERS = (
    "none", "NONE", "TOOL_START,TOOL_END", "LLM_END", "WORKFLOW_START", "tool_start",
    "TOOL_START, TOOL_END", "BOGUS", "",
)  # fmt: skip

PART = {"type": "text", "text": STILL}

BAD_BODIES: dict[str, Any] = {
    "no body": None,
    "an empty body": b"",
    "no JSON": b"{question",
    "a list": [],
    "a text": "question",
    "null": b"null",
    "an empty object": {},
    "no messages": {"messages": []},
    "messages that are a text": {"messages": "question"},
    "a message without a role": {"messages": [{"content": STILL}]},
    "a message without content": {"messages": [{"role": "user"}]},
    "a role that nobody plays": {"messages": [{"role": "critic", "content": STILL}]},
    "content that is a number": {"messages": [{"role": "user", "content": 7}]},
    "a part that nobody knows": {"messages": [{"role": "user", "content": [{"type": "smell"}]}]},
    "no text in a part": {"messages": [{"role": "user", "content": [{"type": "text"}, PART]}]},
    "input and messages": {"input_message": STILL, **chat(STILL)},
    "an empty input and messages": {"input_message": "", **chat(STILL)},
    "no input beside messages": {"input_message": None, **chat(STILL)},
    "a number beside messages": {"input_message": 7, **chat(STILL)},
    "input and an empty list of messages": {"input_message": STILL, "messages": []},
    "input and something": {"input_message": STILL, "temperature": 1},
    "input that is a number": {"input_message": 7},
    "messages and something": chat(STILL, colour="red"),
    "a temperature that is a word": chat(STILL, temperature="hot"),
}
VALIDATING = {
    "/v1/chat", "/v1/chat/stream", "/v1/chat/completions", "/chat", "/chat/stream",
    "/v1/workflow", "/v1/workflow/stream", "/v1/workflow/full", "/generate", "/generate/stream",
    "/generate/full",
}  # fmt: skip

CHOICE = {"id": "x", "value": "x"}
TEXT = {"response": {"type": "text", "text": "2024"}}
BAD_REPLIES: dict[str, Any] = {
    "the published form": {"response": {"input_type": "text", "text": "2024"}},
    "the published choice": {"response": {"input_type": "radio", "selected_options": [CHOICE]}},
    "no response": {"type": "text", "text": "2024"},
    "an empty object": {},
    "no text": {"response": {"type": "text"}},
    "a type that nobody knows": {"response": {"type": "telepathy", "text": "2024"}},
    "a choice without an option": {"response": {"type": "radio"}},
    "a list of options": {"response": {"type": "checkbox", "selected_option": [CHOICE]}},
    "an option without value": {"response": {"type": "radio", "selected_option": {"id": "x"}}},
    "no JSON": b"{reply",
    "no body": b"",
}
MISFITS: dict[str, tuple[str, Any]] = {
    "a value not offered": ("radio", {"type": "radio", "selected_option": CHOICE}),
    "a text for a choice": ("dropdown", {"type": "text", "text": "words"}),
    "a choice for a text": ("text", {"type": "checkbox", "selected_option": CHOICE}),
}


def _questions() -> Iterator[Row]:
    for about, words in QUESTIONS.items():
        racing = about in RACING
        for path, body in SINGLES.items():
            yield Row(f"{path}: {about}", path, body(words))
        for path, body in STREAMS.items():
            yield Row(f"{path} as a stream: {about}", path, body(words), racing=racing)
        for path, body in {"": chat, " as a stream": completions}.items():
            yield Row(
                f"extended completions{path}: {about}",
                "/v1/chat/completions", body(words), kind="full", racing=racing,
            )  # fmt: skip
    for path in ("/v1/workflow/full", "/generate/full"):
        for wanted in FILTERS:
            query = wanted.replace(" ", "%20")
            yield Row(f"{path} of {wanted!r}", f"{path}?filter_steps={query}", flow(STEADY))
    for path in ("/v1/workflow", "/v1/workflow/stream", "/generate", "/generate/full"):
        yield Row(f"{path} takes a conversation", path, talk(STEADY))
    for path in ("/v1/chat", "/v1/chat/stream", "/v1/workflow/stream"):
        parts = {"messages": [{"role": "user", "content": [PART, PART]}]}
        yield Row(f"{path} takes parts", path, parts)
    yield Row("atif never ends", "/v1/workflow/atif", flow(STEADY), leaves_after_s=2.0, racing=True)


def _prompts() -> Iterator[Row]:
    see = Ask("/executions/{execution_id}")
    for kind in PROMPT_KINDS:
        words = f"{STILL} hitl={kind} think_ms=300"
        for path in POLLED:
            body = SINGLES[path](words)
            yield Row(
                f"{path} asks {kind}",
                path,
                body,
                does=(see, Reply()),
                then=(see,) if kind != "notification" else (),
            )
        for path in ASKING:
            yield Row(
                f"{path} asks {kind}",
                path,
                STREAMS[path](words),
                does=(see, Reply()),
                then=(see,) if kind != "notification" else (),
            )
    timed = f"{STILL} hitl=text hitl_timeout=1"
    for path, body in {
        **{p: SINGLES[p] for p in POLLED},
        **{p: STREAMS[p] for p in ASKING},
    }.items():
        yield Row(f"{path}: two prompts", path, body(f"{STILL} hitl=text,radio"))
        yield Row(f"{path}: at start", path, body(f"{STILL} hitl=text hitl_at=start"))
        # What is left behind the prompt outlasts the pause between two looks at a run.
        halved = f"{STILL} hitl=text hitl_at=mid".replace("token_ms=60", "token_ms=300")
        yield Row(f"{path}: in mid answer", path, body(halved), racing=True)
        yield Row(f"{path}: at the end", path, body(f"{STILL} hitl=text hitl_at=end"))
        failing = body(f"{STILL} hitl=text fail=end")
        yield Row(f"{path}: fails behind a prompt", path, failing, then=(see,))
        yield Row(f"{path}: nobody replies", path, body(timed), does=(), then=(see,))
        caught = body(f"{timed} hitl_catch=1 think_ms=3000")
        late = (Pause(7.0), Reply())
        yield Row(f"{path}: a reply after the time limit", path, caught, does=late, then=(see,))
        failed = body(timed)
        yield Row(f"{path}: a reply after the failure", path, failed, does=late, then=(see,))
        left = (Leave(), Pause(0.3), see, Reply(), Pause(0.8), see)
        yield Row(f"{path}: left at a prompt", path, body(f"{STILL} hitl=text"), does=left)


def _replies() -> Iterator[Row]:
    calm = f"{STILL} think_ms=300"
    for path in ("/v1/chat/stream", "/v1/workflow"):
        make = (SINGLES | STREAMS)[path]
        for about, body in BAD_REPLIES.items():
            yield Row(
                f"{path}: a reply of {about}", path, make(f"{calm} hitl=text"),
                does=(Reply(body), Ask("/executions/{execution_id}"), Reply()),
            )  # fmt: skip
        for about, (kind, response) in MISFITS.items():
            does = (Reply({"response": response}),)
            yield Row(f"{path}: {about}", path, make(f"{calm} hitl={kind}"), does=does)
        twice = (Reply(), Pause(0.1), Reply())
        yield Row(f"{path}: a reply twice", path, make(f"{calm} hitl=text"), does=twice)
        again = Ask(
            "/executions/{execution_id}/interactions/{interaction_id}/response", "POST", TEXT
        )
        yield Row(f"{path}: a reply after the end", path, make(f"{calm} hitl=text"), then=(again,))
        foreign = (
            Ask("/executions/nobody/interactions/{interaction_id}/response", "POST", TEXT),
            Ask("/executions/{execution_id}/interactions/nothing/response", "POST", TEXT),
            Ask("/executions/{execution_id}/interactions/{interaction_id}/response", "GET"),
            Ask("/executions/{execution_id}", "DELETE"),
            Reply(),
        )
        yield Row(f"{path}: replies beside it", path, make(f"{calm} hitl=text"), does=foreign)


def _bad_requests() -> Iterator[Row]:
    for path in sorted(VALIDATING):
        for about, body in BAD_BODIES.items():
            yield Row(f"{path}: {about}", path, body)
        yield Row(f"{path}: a wrong method", path, method="GET")
    both = {"input_message": STILL}
    for kind, server in {"": "usual", "full": "extended"}.items():
        for way, make in {"": chat, " as a stream": completions}.items():
            yield Row(
                f"{server} completions{way}: input and messages",
                "/v1/chat/completions", make(STILL, **both), kind=kind,
            )  # fmt: skip
    for about, kind in {
        "text": "text/plain",
        "nothing": "",
        "a form": "multipart/form-data",
    }.items():
        headers = {"content-type": kind}
        yield Row(f"a content type of {about}", "/v1/chat", chat(STILL), headers=headers)
    for path in ("/v1/nothing", "/", "/v1/chat/", "/websocket", "/executions/", "/auth/redirect"):
        yield Row(f"GET {path}", path, method="GET")
        yield Row(f"POST {path}", path, chat(STILL))
    for method in ("HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"):
        yield Row(f"{method} /v1/chat", "/v1/chat", method=method)
    yield Row("an unknown execution", "/executions/nobody", method="GET")
    yield Row("an unknown job", "/v1/workflow/async/job/nobody", method="GET")
    yield Row("an unknown login", "/auth/redirect?state=x&code=y", method="GET")
    yield Row("a login without code", "/auth/redirect?state=x", method="GET")
    yield Row("a refused login", "/auth/redirect?state=x&error=access_denied", method="GET")
    yield Row("health", "/health", method="GET")
    yield Row("monitoring that is off", "/monitor/users", method="GET")


def _departures() -> Iterator[Row]:
    long = f"{STILL} tokens=50 token_ms=40"
    for path, body in STREAMS.items():
        yield Row(
            f"{path}: left in mid answer", path, body(long),
            leaves_after=3, then=(Pause(0.3), Ask("/health")),
        )  # fmt: skip


COOKIE = {"cookie": "nat-session=ann"}
WHO: dict[str, dict[str, str]] = {
    "nobody": {},
    "a session": COOKIE,
    "an API key": {"authorization": "Bearer key"},
    "a key header": {"x-api-key": "key"},
    "name and password": {"authorization": "Basic YW5uOnB3"},
    "a token": {"authorization": "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.c2ln"},
    "a token of nobody": {"authorization": "Bearer eyJhbGciOiJub25lIn0.e30.c2ln"},
    "no token": {"authorization": "Bearer a.b.c"},
    "no name and password": {"authorization": "Basic !!!"},
    "another scheme": {"authorization": "Digest x"},
    "an empty key": {"x-api-key": ""},
    "a proxy's word": {"x-user-id": "ann"},
    "a proxy's empty word": {"x-user-id": ""},
}


def _identities() -> Iterator[Row]:
    routes = {
        "/v1/chat": chat(STILL), "/v1/chat/stream": chat(STILL), "/v1/workflow/full": flow(STILL),
        "/chat": chat(STILL), "/chat/stream": chat(STILL), "/generate": flow(STILL),
        "/generate/full": flow(STILL),
    }  # fmt: skip
    for kind in ("", "header", "peruser", "strict"):
        for who, headers in WHO.items():
            for path, body in routes.items():
                name = f"{kind or 'usual'} server, {path}: {who}"
                yield Row(name, path, body, headers=headers, kind=kind)
    yield Row("users are watched", "/monitor/users", method="GET", kind="peruser")
    unknown = "/monitor/users?user_id=nobody"
    yield Row("an unknown user is watched", unknown, method="GET", kind="peruser")


def _consents() -> Iterator[Row]:
    words = f"{STILL} oauth=1 think_ms=300"
    routes = {
        "/v1/chat": chat, "/v1/workflow": flow, "/v1/chat/stream": chat,
        "/v1/workflow/stream": flow, "/v1/workflow/full": flow, "/v1/chat/completions": completions,
        "/chat": chat, "/chat/stream": chat, "/generate": flow, "/generate/full": flow,
    }  # fmt: skip
    see = Ask("/executions/{execution_id}")
    for number, (path, make) in enumerate(routes.items()):
        body = make(words)
        for what, deny in (("given", False), ("refused", True)):
            who = {"cookie": f"nat-session=consent-{number}-{what}"}
            does = (see, Consent(deny))
            name = f"{path}: a consent {what}"
            yield Row(name, path, body, headers=who, kind="full", does=does)
        yield Row(f"{path}: a consent of nobody", path, body, kind="full", does=(Consent(),))
    who = {"cookie": "nat-session=left-at-consent"}
    yield Row(
        "a consent not given", "/v1/chat/stream", chat(words), headers=who, kind="full",
        does=(Leave(), Pause(0.3), see),
    )  # fmt: skip


OWN_QUESTIONS = {
    "plain": STEADY,
    "fails in mid answer": f"{STILL} fail=mid",
    "asks": f"{STILL} hitl=text think_ms=300",
}


def _own_workflows() -> Iterator[Row]:
    for about, words in OWN_QUESTIONS.items():
        for path, body in (SINGLES | {f"{path}?": make for path, make in STREAMS.items()}).items():
            who = {"x-api-key": f"key of {path} {about}"}
            yield Row(f"{path}: {about}", path, body(words), headers=who, kind="peruser")


CHAPTERS = {
    "questions": _questions,
    "prompts": _prompts,
    "replies": _replies,
    "bad requests": _bad_requests,
    "departures": _departures,
    "identities": _identities,
    "consents": _consents,
    "own workflows": _own_workflows,
}
ROWS = {f"{name}: {row.name}": row for name, rows in CHAPTERS.items() for row in rows()}
