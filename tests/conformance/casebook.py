"""The dialogues of the suite: what is asked, by whom, and what the record of each turn must say.

The words of a question say what the workflow does (`nat/plugin/src/scripted_analyst/script.py`),
so what a turn should be judged as is known before it is asked.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from counterparts import Server
from dialogue import Analyst, Habits, Row, later

from loadgen.dialects.contract import Identity
from loadgen.identity import IdentityPlan

SSE, WS = "nat-sse", "nat-ws"
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
    ``think_s`` lies between the turns.  ``loses`` says when the network takes the connection:
    ``between`` the turns, or so many seconds into the first one.  ``stranger``: at the first prompt
    the analyst turns into somebody else.  ``race`` names facts that depend on who is faster, the
    server's tasks or the network, and are not compared.
    """

    name: str
    words: str
    turns: Sequence[Expected]
    on: Sequence[str] = (SSE, WS)
    habits: Habits = field(default_factory=Habits)
    credential: Mapping[str, str] | None = None
    think_s: float = 0.2
    loses: float | str | None = None
    stranger: bool = False
    keep_alive_s: float = 4.0
    race: Sequence[str] = field(default=())

    def play(self, server: Server, dialect: str) -> list[Row]:
        """The rows of the dialogue."""
        credential = self.credential
        if credential is None:
            credential = {"method": "api_key", "template": uuid4().hex}
        with Analyst(
            server,
            dialect,
            identity=IdentityPlan.model_validate(credential),
            habits=self.habits,
            keep_alive_s=self.keep_alive_s,
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

CHAPTERS = {
    "answers": ANSWERS,
    "failures": FAILURES,
    "prompts": PROMPTS,
    "connections": CONNECTIONS,
    "identities": IDENTITIES,
    "resumes": RESUMES,
}
CASES = {f"{chapter}: {case.name}": case for chapter, cases in CHAPTERS.items() for case in cases}
ENTRIES = [(name, dialect) for name, case in CASES.items() for dialect in case.on]
"""Each case on each of its dialects."""
