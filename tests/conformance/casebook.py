"""The dialogues of the suite: what is asked, by whom, and what the record of each turn must say.

The words of a question say what the workflow does (`nat/plugin/src/scripted_analyst/script.py`),
so what a turn should be judged as is known before it is asked.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import tokens
from counterparts import Server
from dialogue import Analyst, Habits, Row, later

from loadgen.dialects.contract import Identity, Shape
from loadgen.identity import IdentityPlan

SSE, WS, POLL = "nat-sse", "nat-ws", "nat-poll"
BASE = "steps=1 step_ms=30 tokens=4 token_ms=10"
W = "w0 w1 w2 w3 "
ODD = (
    "<odd> caf\u00e9 \u6f22\u5b57 \U0001f600 a\u2028b\u2029c\u0085d\x0be\x0cf\r\n\n"
    "data: [DONE]\n\nevent: error\n </odd> "
)

Expected = Mapping[str, Any]
"""Some of the `dialogue.facts` of a turn."""


@dataclass(frozen=True)
class Case:
    """One dialogue: ``words`` are added to `BASE`, and ``turns`` say how each turn must end.

    ``credential`` fills an `IdentityPlan`; without one every analyst has an API key of its own.
    ``mints`` says that it is a token, signed as the servers of kind ``jwt`` want it but for that.
    ``think_s`` lies between the turns.  ``loses`` says when the network takes the connection:
    ``between`` the turns, or so many seconds into the first one.  ``stranger``: at the first prompt
    the analyst turns into somebody else.  ``race`` names facts that depend on who is faster, the
    server's tasks or the network, and are not compared.  ``route`` and ``options`` are the
    dialect's, ``kind`` the server's (`conftest.KINDS`).
    """

    name: str
    words: str
    turns: Sequence[Expected]
    on: Sequence[str] = (SSE, WS)
    habits: Habits = field(default_factory=Habits)
    credential: Mapping[str, Any] | None = None
    mints: Mapping[str, Any] | None = None
    think_s: float = 0.2
    loses: float | str | None = None
    stranger: bool = False
    keep_alive_s: float = 4.0
    race: Sequence[str] = field(default=())
    route: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    kind: str = ""

    def play(self, server: Server, dialect: str) -> list[Row]:
        """The rows of the dialogue."""
        credential = self.credential
        if credential is None:
            credential = {"method": "api_key", "template": uuid4().hex}
        if self.mints is not None:
            credential = {**credential, "mint": tokens.mint(**self.mints)}
        with Analyst(
            server,
            dialect,
            identity=IdentityPlan.model_validate(credential),
            habits=self.habits,
            keep_alive_s=self.keep_alive_s,
            route=self.route,
            options=self.options,
        ) as analyst:
            if self.stranger:
                stranger = {"method": "api_key", "token": uuid4().hex}
                analyst.at_a_prompt(lambda: analyst.become(Identity(login=stranger)))
            if isinstance(self.loses, float):
                later(self.loses, analyst.lose_connection)
            rows = []
            for number in range(len(self.turns)):
                if number:
                    analyst.rest(self.think_s)
                    if self.loses == "between":
                        analyst.lose_connection()
                rows.append(analyst.ask(f"{BASE} {self.words}"))
            return rows


def completed(answer: str, **facts: Any) -> Expected:
    """A good turn whose whole answer is ``answer`` and the tag of the turn."""
    return {"outcome": "completed", "cause": None, "answer": f"{answer}tag=t1"} | facts


def failed(*said: str, **facts: Any) -> Expected:
    """A turn that the agent failed; its detail has all that is ``said``."""
    return {"outcome": "failed", "cause": "agent_error", "says": said} | facts


def broken(at: str) -> Expected:
    """A run that raises where the script says so."""
    return failed("workflow_error", "ScriptedFailure", f"scripted failure {at}")


def ended(outcome: str, cause: str, **facts: Any) -> Expected:
    """A turn that ended some other way."""
    return {"outcome": outcome, "cause": cause} | facts


def second(expected: Expected) -> Expected:
    """The same on the second turn of a dialogue."""
    return dict(expected) | {"answer": str(expected["answer"]).replace("tag=t1", "tag=t2")}


def _token(subject: str) -> str:
    """A JWT that nobody signed."""
    parts = ({"alg": "none"}, {"sub": subject})
    texts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in parts]
    return ".".join([*(text.rstrip("=") for text in texts), "c2ln"])


PLAIN = completed(W)
CALM = "think_ms=500"
"""Time for the answer to a reply before the turn can end without it."""
CHOICES = ("radio", "checkbox", "dropdown")
API_KEY = {"method": "api_key", "template": "analyst-key"}
JWT = {"method": "jwt", "template": _token("analyst-jwt")}
BASIC = {"method": "basic", "username": "analyst", "template": "word"}
RESUMED = {"recovered": True, "resumed": 1, "losses": [("prompt", None)]}
TAKEN_UP = completed(f"[hitl text:2024] {W}", **RESUMED)

ANSWERS = (
    Case("plain", "", [completed(W, progress="tool", steps=2, chunks=5)]),
    Case("silent steps show no progress", "step_kind=none", [completed(W, progress=None, steps=0)]),
    Case("custom steps are not shown", "step_kind=custom", [completed(W, progress=None)]),
    Case("function steps", "step_kind=function", [completed(W, progress="function", steps=2)]),
    Case("model steps", "step_kind=llm", [completed(W, progress="llm", steps=2)]),
    Case("no steps", "steps=0", [completed(W, progress=None, steps=0)]),
    Case("a model that streams", "steps=0 llm=1", [completed(W, progress="llm", steps=6)]),
    Case("steps of 600 KiB", "step_kb=600", [completed(W, steps=2)]),
    Case("a trace id", "trace=1", [completed(W), second(PLAIN)]),
    Case("odd characters", "odd=1", [completed(W + ODD, chunks=6)]),
    Case("long chunks", "tokens=1 token_len=9000", [completed(f"{'w0'.ljust(9000, 'x')} ")]),
    Case("an answer of one word", "tokens=0", [completed("", chunks=1)]),
    Case("a silence in the answer", "hang_ms=700", [completed(W)]),
    Case("a tool that blocks the server", "block_ms=100", [completed(W)]),
    Case("words in a sentence", "and (tokens=2, token_ms=x).", [completed("w0 w1 ")]),
)

FAILURES = (
    Case("at start", "fail=start", [broken("at start")], race=("steps",)),
    Case("in a step", "fail=steps", [broken("at steps")], race=("steps",)),
    Case("before the answer", "fail=answer", [broken("at answer")], race=("steps",)),
    Case("in mid answer", "fail=mid", [broken("at mid") | {"answer": "w0 w1 ", "chunks": 2}]),
    Case("behind the answer", "fail=end", [broken("at end") | {"answer": W}]),
    Case("after 3 chunks", "fail_after=3", [broken("after 3 chunks") | {"answer": "w0 w1 w2 "}]),
    Case(
        "after a good prompt",
        "hitl=text fail=answer",
        [broken("at answer")],
        race=("steps",),
    ),
    Case("no such prompt", "hitl=bogus", [failed("unknown hitl kind 'bogus'")], race=("steps",)),
    Case("a turn after a failed one", "fail=mid", [broken("at mid"), broken("at mid")]),
)

PROMPTS = (
    Case(
        "text",
        f"hitl=text {CALM}",
        [completed(f"[hitl text:2024] {W}", prompts=[("text", True)])],
    ),
    Case(
        "binary_choice",
        f"hitl=binary_choice {CALM}",
        [completed(f"[hitl binary_choice:cancel] {W}", prompts=[("binary_choice", True)])],
    ),
    *(
        Case(
            kind,
            f"hitl={kind} {CALM}",
            [completed(f"[hitl {kind}:sms] {W}", prompts=[(kind, True)])],
        )
        for kind in CHOICES
    ),
    Case(
        "notification",
        "hitl=notification",
        [completed(f"[hitl notification:Notification acknowledgement.] {W}")],
    ),
    Case(
        "a value that was not offered",
        "hitl=radio",
        [completed(f"[hitl radio:pigeon] {W}")],
        habits=Habits(value="pigeon"),
    ),
    Case(
        "a text outside ASCII",
        "hitl=text",
        [completed(f"[hitl text:Prämie\u2028漢字😀] {W}")],
        habits=Habits(value="Prämie\u2028漢字😀"),
    ),
    Case("at start", "hitl=text hitl_at=start", [completed(f"[hitl text:2024] {W}")]),
    Case("in mid answer", "hitl=text hitl_at=mid", [completed("w0 w1 [hitl text:2024] w2 w3 ")]),
    Case("at the end", "hitl=text hitl_at=end", [completed(f"{W}[hitl text:2024] ")]),
    Case(
        "one after the other",
        "hitl=text,notification,radio",
        [completed("[hitl text:2024 notification:Notification acknowledgement. radio:sms] " + W)],
    ),
    Case(
        "nobody replies in time",
        "hitl=text hitl_timeout=1",
        [failed("workflow_error", "TimeoutError", prompts=[("text", False)])],
        habits=Habits(reply_s=20),
    ),
    Case(
        "nobody replies and the run goes on",
        "hitl=text hitl_timeout=1 hitl_catch=1",
        [completed(f"[hitl text:TIMEOUT] {W}", prompts=[("text", False)])],
        habits=Habits(reply_s=20),
    ),
    Case(
        "a late reply kills the socket and the turn is taken up again",
        "hitl=text hitl_timeout=1 hitl_catch=1 think_ms=5000",
        [completed(f"[hitl text:TIMEOUT] {W}", losses=[("turn", 1006)], resumed=1)],
        on=(WS,),
        habits=Habits(reply_s=7.5),
    ),
)

CONNECTIONS = (
    Case(
        "turns share a connection",
        "",
        [PLAIN | {"connections": 1}, second(PLAIN) | {"connections": 0}],
    ),
    Case(
        "an idle request connection has expired at the server",
        "",
        [PLAIN, second(PLAIN) | {"connections": 1}],
        on=(SSE,),
        think_s=5.6,
        keep_alive_s=60,
    ),
    Case(
        "an idle request connection is not trusted for long",
        "",
        [PLAIN, second(PLAIN) | {"connections": 1}],
        on=(SSE,),
        think_s=5.6,
    ),
    Case(
        "an idle socket is kept",
        "",
        [PLAIN, second(PLAIN) | {"connections": 0}],
        on=(WS,),
        think_s=5.6,
    ),
    Case(
        "a connection lost between turns is made again",
        "",
        [PLAIN, second(PLAIN) | {"connections": 1, "resumed": 0}],
        loses="between",
    ),
    Case(
        "a request cut in mid turn",
        "step_kind=none step_ms=2000",
        [ended("incomplete", "stream_cut", losses=[("turn", None)])],
        on=(SSE,),
        loses=0.7,
    ),
    Case(
        "a socket lost in a silent step",
        "step_kind=none step_ms=3000",
        [completed(W, losses=[("turn", None)], recovered=True, resumed=1)],
        on=(WS,),
        loses=0.7,
    ),
    Case(
        "a socket lost while the answer runs",
        "tokens=80 token_ms=25",
        [ended("incomplete", "lost_resume", losses=[("turn", None)])],
        on=(WS,),
        loses=0.7,
        race=("answer", "chunks"),
    ),
)

IDENTITIES = (
    Case("an API key", "", [PLAIN], credential=API_KEY),
    Case("a JWT", "", [PLAIN], credential=JWT),
    Case("name and password", "", [PLAIN], credential=BASIC),
    Case("a session", "", [PLAIN], credential={"method": "session", "template": "analyst-7"}),
    Case("a bearer header", "", [PLAIN], credential={"method": "bearer", "template": "k"}),
    Case("a key header", "", [PLAIN], credential={"method": "api_key_header", "template": "k"}),
    Case("nobody", "", [PLAIN | {"logins": 0}], credential={"method": "none"}),
    Case(
        "a login that is no JWT",
        "",
        [ended("refused", "auth_rejected", says=("user_auth_error",), logins=0)],
        on=(WS,),
        credential={"method": "jwt", "template": "no-jwt"},
    ),
    Case(
        "a header that is no JWT",
        "",
        [failed("Failed to decode JWT")],
        on=(SSE,),
        credential={"method": "bearer", "template": "a.b.c"},
    ),
)

RESUMES = (
    *(
        Case(
            who,
            "hitl=text",
            [TAKEN_UP],
            on=(WS,),
            habits=Habits(drops=1),
            credential=credential,
        )
        for who, credential in (
            ("by API key", API_KEY | {"template": "resuming-key"}),
            ("by JWT", {"method": "jwt", "template": _token("resuming-jwt")}),
            ("by name and password", BASIC | {"template": "resuming"}),
            ("by session", {"method": "session", "template": "resuming-session"}),
        )
    ),
    *(
        Case(
            f"at a {kind} prompt",
            f"hitl={kind}",
            [completed(f"[hitl {kind}:{value}] {W}", **RESUMED)],
            on=(WS,),
            habits=Habits(drops=1),
        )
        for kind, value in (("binary_choice", "cancel"), *((kind, "sms") for kind in CHOICES))
    ),
    Case(
        "twice in a turn",
        "hitl=text",
        [completed(f"[hitl text:2024] {W}", resumed=2, recovered=True)],
        on=(WS,),
        habits=Habits(drops=2),
    ),
    Case(
        "then the next turn",
        "hitl=text",
        [TAKEN_UP, second(TAKEN_UP)],
        on=(WS,),
        habits=Habits(drops=1),
    ),
    Case(
        "not as somebody else",
        "hitl=text",
        [ended("incomplete", "lost_resume", resumed=1)],
        on=(WS,),
        habits=Habits(drops=1),
        stranger=True,
    ),
    Case(
        "not as nobody",
        "hitl=text",
        [ended("incomplete", "lost_resume", resumed=1)],
        on=(WS,),
        habits=Habits(drops=1),
        credential={"method": "none"},
    ),
)

STREAMED: Mapping[str, Mapping[str, Any]] = {
    "/chat/stream": {},
    "/v1/chat/completions": {},
    "/v1/workflow/stream": {},
    "/generate/stream": {},
    "/v1/workflow/full": {},
    "/generate/full": {},
}
SINGLE = ("/v1/chat", "/v1/workflow", "/v1/chat/completions", "/chat", "/generate")
MUTE = "No human prompt callback was registered"
CANNOT_ASK = failed("workflow_error", MUTE)
ASKED = completed(f"[hitl radio:sms] {W}", prompts=[("radio", True)], replies=[(204, None)])

ROUTES = (
    *(
        Case(f"{what} on {route}", words, [turn], on=(SSE,), route=route, race=("steps",))
        for route in STREAMED
        for what, words, turn in (
            ("plain", "", completed(W, progress="tool")),
            ("silent", "step_kind=none", completed(W, progress=None)),
            ("a model", "llm=1 steps=0", completed(W, progress="llm")),
            ("a trace id", "trace=1", PLAIN),
            ("odd characters", "odd=1", completed(W + ODD)),
            ("an early failure", "fail=start", broken("at start")),
            ("a failure", "fail=mid", broken("at mid") | {"answer": "w0 w1 "}),
            (
                "a prompt",
                f"hitl=radio {CALM}",
                ASKED if route.startswith("/v1/workflow") else CANNOT_ASK,
            ),
        )
    ),
    *(
        Case(
            f"steps {wanted!r} of {route}", "", [completed(W, progress=progress, steps=steps)],
            on=(SSE,), route=route, options={"filter_steps": wanted},
        )
        for route in ("/v1/workflow/full", "/generate/full")
        for wanted, progress, steps in (
            ("none", None, 0), ("TOOL_START,TOOL_END", "tool", 2), ("TOOL_END", "tool", 1),
            ("LLM_END", None, 0), ("WORKFLOW_START", None, 0),
        )
    ),
    Case(
        "a conversation as a workflow's input", "", [PLAIN, second(PLAIN)],
        on=(SSE,), route="/v1/workflow/stream", options={"input": "messages"},
    ),
    *(
        Case(
            f"{what} on extended completions", words, [turn],
            on=(SSE,), route="/v1/chat/completions", options={"extensions": True}, kind="full",
        )
        for what, words, turn in (
            ("plain", "", PLAIN),
            ("a prompt", f"hitl=radio {CALM}", ASKED),
            ("a failure", "fail=mid", broken("at mid")),
        )
    ),
    Case(
        "extended completions that nobody spoke of", "",
        [ended("incomplete", "stream_cut", says=("options.extensions",))],
        on=(SSE,), route="/v1/chat/completions", kind="full",
    ),
    *(
        Case(f"{what} as {schema}", words, [turn], on=(WS,), options={"schema_type": schema})
        for schema in ("chat", "generate", "generate_stream")
        for what, words, turn in (
            ("plain", "", completed(W, progress="tool")),
            ("a failure", "step_kind=none fail=mid", broken("at mid")),
            ("a prompt", f"hitl=radio {CALM}", completed(f"[hitl radio:sms] {W}")),
        )
    ),
)  # fmt: skip

POLLING = (
    *(
        Case(f"{what} on {route}", words, turns, on=(POLL,), route=route)
        for route in SINGLE
        for what, words, turns in (
            ("plain", "", [completed(W, polled=False, progress=None, chunks=1, steps=0)]),
            ("two", "", [PLAIN, second(PLAIN)]),
            ("a failure", "fail=mid", [failed("scripted failure at mid", answer="", status=422)]),
            ("odd characters", "odd=1", [completed(W + ODD)]),
            ("a notification", "hitl=notification", [
                completed(f"[hitl notification:Notification acknowledgement.] {W}", polled=False)
                if route in ("/v1/chat", "/v1/workflow") else CANNOT_ASK
            ]),
        )
    ),
    *(
        Case(f"a prompt on {route}", "hitl=text", [CANNOT_ASK], on=(POLL,), route=route)
        for route in SINGLE[2:]
    ),
    *(
        Case(f"{what} on {route}", words, [turn], on=(POLL,), route=route, habits=habits)
        for route in SINGLE[:2]
        for what, words, turn, habits in (
            *(
                (f"a {kind} prompt", f"hitl={kind} {CALM}",
                 completed(f"[hitl {kind}:{value}] {W}", polled=True, prompts=[(kind, True)],
                           replies=[(204, None)]), Habits())
                for kind, value in (
                    ("text", "2024"), ("binary_choice", "cancel"),
                    *((kind, "sms") for kind in CHOICES),
                )
            ),
            ("two prompts", f"hitl=text,radio {CALM}",
             completed(f"[hitl text:2024 radio:sms] {W}", polled=True),
             Habits()),
            ("a prompt in mid answer", f"hitl=text hitl_at=mid {CALM}",
             completed("w0 w1 [hitl text:2024] w2 w3 "), Habits()),
            ("a failure behind a prompt", f"hitl=text fail=end {CALM}", failed("at end"), Habits()),
            ("nobody replies", "hitl=text hitl_timeout=1", failed("timed out", polled=True),
             Habits(reply_s=None)),
            ("a run that goes on", "hitl=text hitl_timeout=1 hitl_catch=1",
             completed(f"[hitl text:TIMEOUT] {W}", prompts=[("text", False)]),
             Habits(reply_s=None)),
        )
    ),
    Case(
        "extended completions", f"hitl=radio {CALM}", [ASKED | {"polled": True}],
        on=(POLL,), route="/v1/chat/completions", kind="full",
    ),
)  # fmt: skip

OVER_HTTP = (SSE, POLL)
POLICIES = (
    Case(
        "a reply twice", f"hitl=text {CALM}",
        [completed(f"[hitl text:2024] {W}", replies=[(204, 404)])],
        on=OVER_HTTP, habits=Habits(twice=True),
    ),
    Case(
        "a malformed reply", "hitl=radio hitl_timeout=1 hitl_catch=1",
        [completed(f"[hitl radio:TIMEOUT] {W}", replies=[(422, None)])],
        on=OVER_HTTP, habits=Habits(shape=Shape.MALFORMED),
    ),
    Case(
        "a malformed reply that fails the run", "hitl=radio hitl_timeout=1",
        [ended("failed", "agent_error", replies=[(422, None)])],
        on=OVER_HTTP, habits=Habits(shape=Shape.MALFORMED),
    ),
    Case(
        "a malformed reply on a socket", "hitl=radio hitl_timeout=1 hitl_catch=1",
        [completed(f"[hitl radio:TIMEOUT] {W}")],
        on=(WS,), habits=Habits(shape=Shape.MALFORMED),
    ),
    Case(
        "a text for a choice", f"hitl=radio {CALM}",
        [completed(f"[hitl radio:sms] {W}", replies=[(204, None)])],
        on=OVER_HTTP, habits=Habits(shape=Shape.OTHER_TYPE),
    ),
    Case(
        "a choice for a text", f"hitl=text {CALM}",
        [completed(f"[hitl text:2024] {W}", replies=[(204, None)])],
        on=OVER_HTTP, habits=Habits(shape=Shape.OTHER_TYPE),
    ),
    Case(
        "a value that was not offered", f"hitl=checkbox {CALM}",
        [completed(f"[hitl checkbox:pigeon] {W}", replies=[(204, None)])],
        on=OVER_HTTP, habits=Habits(value="pigeon"),
    ),
    Case(
        "no reply", "hitl=text hitl_timeout=1",
        [ended("failed", "agent_error", says=("timed out",), prompts=[("text", False)])],
        on=(SSE, WS, POLL), habits=Habits(reply_s=None),
    ),
    Case(
        "a late reply", "hitl=text hitl_timeout=1 hitl_catch=1 think_ms=4000",
        [completed(f"[hitl text:TIMEOUT] {W}", replies=[(400, None)])],
        on=OVER_HTTP, habits=Habits(reply_s=7.5, insists=True),
    ),
    Case(
        "a late reply to a run that has failed", "hitl=text hitl_timeout=1",
        [ended("failed", "agent_error", says=("timed out",), replies=[(400, None)])],
        on=OVER_HTTP, habits=Habits(reply_s=7.5, insists=True),
    ),
    Case(
        "a reply twice kills the socket, and what was said meanwhile is lost",
        "hitl=text",
        [ended("incomplete", "lost_resume", losses=[("turn", 1006)], resumed=1)],
        on=(WS,), habits=Habits(twice=True), race=("answer", "chunks", "milestones", "detail"),
    ),
    Case(
        "a stream cut behind a prompt", "hitl=text hitl_at=start step_kind=none step_ms=2500",
        [ended("incomplete", "stream_cut", state="running", replies=[(204, None)])],
        on=(SSE,), loses=1.2,
    ),
    Case(
        "another question before the answer", "step_kind=none step_ms=2000",
        [ended("abandoned", "patience"), second(PLAIN)],
        on=(SSE, WS, POLL), habits=Habits(interrupt_s=0.6),
    ),
    Case(
        "another question at a prompt", f"hitl=text {CALM}",
        [ended("abandoned", "patience"), second(completed(f"[hitl text:2024] {W}"))],
        on=(SSE, WS, POLL), habits=Habits(interrupt_s=0.5, reply_s=0.7),
    ),
)  # fmt: skip

EVERYWHERE = (SSE, WS, POLL)
OK = completed(f"[oauth ok] {W}")
CONSENTED = [("oauth_consent", True)]
CONSENTS = (
    Case(
        "given", CALM, [OK | {"prompts": CONSENTED}, second(OK) | {"prompts": []}],
        on=EVERYWHERE, kind="full",
    ),
    Case(
        "refused", CALM, [ended("failed", "agent_error", prompts=CONSENTED)],
        on=EVERYWHERE, kind="full", habits=Habits(consent="deny"),
    ),
    Case(
        "which these analysts do not give", CALM, [ended("failed", "auth_rejected")],
        on=EVERYWHERE, kind="full", habits=Habits(consent="fail"),
    ),
    Case(
        "that nobody gives in time", CALM, [ended("abandoned", "patience")],
        on=(SSE, WS), kind="full", habits=Habits(consent="skip", interrupt_s=1.5),
    ),
    Case(
        "of nobody", CALM, [failed("No resolved user identity")],
        on=EVERYWHERE, kind="full", credential={"method": "none"},
    ),
    *(
        Case(
            f"on {route}", CALM, [OK | {"prompts": CONSENTED}],
            on=(dialect,), kind="full", route=route, options=options,
        )
        for dialect, route, options in (
            (SSE, "/v1/workflow/stream", {}),
            (SSE, "/v1/workflow/full", {}),
            (SSE, "/v1/chat/completions", {"extensions": True}),
            (POLL, "/v1/workflow", {}),
        )
    ),
    Case(
        "for a page of its own", CALM, [OK | {"prompts": CONSENTED}],
        on=(WS,), kind="full", options={"oauth_mode": "popup"},
    ),
)  # fmt: skip
CONSENTS = tuple(replace(case, words=f"oauth=1 {case.words}") for case in CONSENTS)

REFUSED = ended("refused", "auth_rejected")
PROXY = {"method": "header", "header": "X-User-ID", "template": "ann"}
NOBODY = {"method": "none"}
POLICED = (
    *(
        Case(
            f"{credential['method']} where only API keys count", "", [turn],
            on=(WS,), kind="strict", credential=credential, race=("milestones",),
        )
        for credential, turn in (
            (API_KEY, PLAIN | {"logins": 1}),
            ({"method": "bearer", "template": "key"}, PLAIN),
            ({"method": "api_key_header", "template": "key"}, PLAIN),
            (NOBODY, PLAIN),
            (JWT, REFUSED),
            (BASIC, REFUSED),
            ({"method": "session", "template": "ann"}, REFUSED),
            ({"method": "session_query", "template": "ann"}, REFUSED),
            (BASIC | {"method": "basic_header"}, REFUSED),
        )
    ),
    *(
        Case(
            f"{credential['method']} behind a proxy", "", [turn],
            on=on, kind="header", credential=credential,
        )
        for credential, on, turn in (
            (PROXY, EVERYWHERE, PLAIN),
            (NOBODY, (WS,), REFUSED),
            (NOBODY, OVER_HTTP, ended("failed", "agent_error")),
            (API_KEY, (WS,), REFUSED),
        )
    ),
    *(
        Case(
            f"{credential['method']} with a workflow of one's own", "", [turn],
            on=EVERYWHERE, kind="peruser", credential=credential,
        )
        for credential, turn in (
            (API_KEY, PLAIN),
            # A name of its own: a user's workflow of 1.9.0 keeps the conversation id that it saw
            # first for all requests of that user that name none.
            ({"method": "session", "template": "user-of-the-dialogues"}, PLAIN),
            (NOBODY, failed("user_id is required")),
        )
    ),
    Case(
        "session_query", "", [PLAIN],
        on=EVERYWHERE, credential={"method": "session_query", "template": "ann"},
    ),
    Case("basic_header", "", [PLAIN], on=EVERYWHERE, credential=BASIC | {"method": "basic_header"}),
    Case(
        "a header that is no JWT, on a socket", "",
        [ended("incomplete", "connect_failed")],
        on=(WS,), credential={"method": "bearer", "template": "a.b.c"},
    ),
)  # fmt: skip

AT_LOGIN, IN_HEADER = {"method": "jwt"}, {"method": "bearer"}
BAD_MINTS: Mapping[str, Mapping[str, Any]] = {
    "expired": {"expired_share": 1.0},
    "not yet valid": {"claims": {"nbf": 4_000_000_000}},
    "of another issuer": {"issuer": "https://other.example"},
    "without issuer": {"issuer": None},
    "for another audience": {"audience": "other"},
    "without the scope": {"scopes": ["other"]},
    "signed with another key": {"key": "stranger"},
    "of an unknown key": {"key_id": "two"},
    "signed with a secret": {"algorithm": "HS256", "key_file": None},
}
VERIFIED = (
    *(
        Case(
            f"a good token {how}", "", [PLAIN | {"logins": logins}, second(PLAIN)],
            on=(WS,), kind="jwt", credential=credential, mints=mints,
        )
        for how, credential, logins, mints in (
            ("at login", AT_LOGIN, 1, {}),
            ("in a header", IN_HEADER, 0, {}),
            ("without a key's name", AT_LOGIN, 1, {"key_id": None}),
            ("of an e-mail", AT_LOGIN, 1, {"claim": "email", "subject": "ann@example.com"}),
        )
    ),
    Case(
        "a good token on a curve", "", [PLAIN | {"logins": 1}],
        on=(WS,), kind="jwts", credential=AT_LOGIN,
        mints={"algorithm": "ES256", "key": "P-256", "key_id": "P-256", "scopes": []},
    ),
    Case(
        "a turn taken up by the same user", "hitl=text", [TAKEN_UP],
        on=(WS,), kind="jwt", credential=AT_LOGIN, mints={}, habits=Habits(drops=1),
    ),
    Case(
        "a turn not taken up by another one", "hitl=text",
        [ended("incomplete", "lost_resume", resumed=1)],
        on=(WS,), kind="jwt", credential=AT_LOGIN, mints={}, habits=Habits(drops=1), stranger=True,
    ),
    *(
        Case(
            f"a token {about} {how}", "", [REFUSED | {"says": (said,)}],
            on=(WS,), kind="jwt", credential=credential, mints=mints, race=("milestones",),
        )
        for about, mints in BAD_MINTS.items()
        for how, credential, said in (
            ("at login", AT_LOGIN, "user_auth_error"),
            ("in a header", IN_HEADER, "Identity credential was rejected"),
        )
    ),
    *(
        Case(
            f"a token {about} by request, where nobody looks", "", [PLAIN],
            on=OVER_HTTP, kind="jwt", credential=IN_HEADER, mints=mints,
        )
        for about, mints in BAD_MINTS.items()
    ),
)  # fmt: skip

CHAPTERS = {
    "answers": ANSWERS,
    "failures": FAILURES,
    "prompts": PROMPTS,
    "connections": CONNECTIONS,
    "identities": IDENTITIES,
    "resumes": RESUMES,
    "routes": ROUTES,
    "polling": POLLING,
    "policies": POLICIES,
    "consents": CONSENTS,
    "policed": POLICED,
    "verified": VERIFIED,
}
CASES = {f"{chapter}: {case.name}": case for chapter, cases in CHAPTERS.items() for case in cases}
ENTRIES = [(name, dialect) for name, case in CASES.items() for dialect in case.on]
"""Each case on each of its dialects."""
