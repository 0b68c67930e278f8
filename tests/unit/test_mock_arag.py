"""The pure parts of the mock's Progress Agentic RAG side: words, acts, frames, tokens, messages."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from loadgen.errors import ConfigError
from mockagent.__main__ import main
from mockagent.agent import Agent, Settings
from mockagent.arag_acts import Act, Answered, Feedback, Found, Replied, Worked, Writing, Written
from mockagent.arag_frames import KEYS, AragFrames, AragParts, citations
from mockagent.arag_oauth import cached_credentials
from mockagent.arag_options import arag_settings_from
from mockagent.arag_questions import CREDENTIALS_URI, KINDS, kinds_of, question
from mockagent.arag_reference import reference, scenario_of
from mockagent.arag_requests import (
    BadMessage,
    NotJson,
    read_message,
    understood_question,
    understood_reply,
)
from mockagent.arag_settings import AragSettings, TokenFailure
from mockagent.arag_tokens import Tokens
from mockagent.arag_turns import Arag
from mockagent.arag_words import AragWords, Moment
from mockagent.arag_workflow import StageFailure, work
from mockagent.edition import Edition
from mockagent.faults import Faults
from mockagent.script import Script
from mockagent.words import read_words

README = Path(__file__).parents[2] / "mockagent" / "README.md"


def acts(text: str, reply: str | None = "yes") -> tuple[list[Act], str]:
    """The acts of a question, every request answered by ``reply``; how the agent failed."""
    words = read_words(text)
    asked = work(text, Script.from_words(words), Faults(), AragWords.from_words(words))
    done: list[Act] = []
    try:
        act = next(asked)
        while True:
            done.append(act)
            answer = Replied(reply, 1.0) if isinstance(act, Feedback) else None
            act = asked.send(answer)
    except StopIteration:
        return done, ""
    except StageFailure as failure:
        return done, f"{failure.stage}: {failure}"


def texts(done: list[Act]) -> list[str]:
    return [act.text for act in done if isinstance(act, Written)]


def answers(done: list[Act]) -> list[str]:
    return [act.text for act in done if isinstance(act, Answered)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", AragWords()),
        ("feedback=enum,array feedback_timeout=2.5", AragWords("enum,array", 2.5)),
        ("feedback_timeout=nan", AragWords()),
        ("feedback_timeout=-1", AragWords()),
        ("big_kb=inf agents=0 visualizations=-4", AragWords()),
        ("agents=1000000", AragWords(agents=100)),
        ("close_code=1011", AragWords(close_code=1011)),
        ("close_code=1006", AragWords()),
        ("close_code=99999", AragWords()),
        ("reasoning=two", AragWords()),
    ],
)
def test_words_that_cannot_be_obeyed_are_ignored(text: str, expected: AragWords) -> None:
    assert AragWords.from_words(read_words(text)) == expected


@pytest.mark.parametrize(
    ("text", "moment"),
    [("break_at=open", Moment.OPEN), ("break_at=close", Moment.CLOSE), ("break_at=x", None)],
)
def test_a_break_has_a_moment_or_a_count(text: str, moment: Moment | None) -> None:
    assert AragWords.from_words(read_words(text)).moment is moment


@pytest.mark.parametrize(
    ("text", "chunks", "answer"),
    [
        ("tokens=2", ["w0 ", "w1 ", "end"], "w0 w1 end"),
        ("tokens=0 tag=u1", ["tag=u1"], "tag=u1"),
        ("tokens=1 token_len=4", ["w0xx ", "end"], "w0xx end"),
        ("tokens=1 agents=2", ["w0 ", "v0 ", "end", "end"], "v0 end"),
        ("tokens=1 restarts=1", ["w0 ", "end", "w0 ", "end"], "w0 end"),
        ("tokens=1 feedback=1 hitl_at=end", ["w0 ", "end"], "w0 end"),
    ],
)
def test_chunks_are_those_of_nats_workflow_and_make_up_the_answer(
    text: str, chunks: list[str], answer: str
) -> None:
    done, _ = acts(text)
    footnote = " [1]\n\n[1]: block-AA"
    assert [chunk.removesuffix(footnote) for chunk in texts(done)] == chunks
    assert answers(done)[-1] == answer + footnote


@pytest.mark.parametrize(
    ("text", "steps", "contexts"),
    [
        ("steps=0", ["summarize"], 1),
        ("steps=1", ["rephrase", "summarize"], 1),
        ("steps=3", ["rephrase", "basic_ask", "basic_ask", "summarize"], 2),
        ("steps=1 restarts=1", ["rephrase", "summarize", "restart", "basic_ask", "summarize"], 2),
        ("steps=1 feedback=1", ["rephrase", "smart", "summarize"], 1),
    ],
)
def test_steps_are_a_new_wording_then_searches_that_find_something(
    text: str, steps: list[str], contexts: int
) -> None:
    done, _ = acts(text)
    assert [act.module for act in done if isinstance(act, Worked)] == steps
    assert sum(isinstance(act, Found) for act in done) == contexts


@pytest.mark.parametrize(
    ("text", "failure", "chunks"),
    [
        ("fail=start", "context: scripted failure at start", 0),
        ("fail=steps", "context: scripted failure at steps", 0),
        ("fail=answer", "context: scripted failure at answer", 0),
        ("tokens=4 fail=mid", "generation: scripted failure at mid", 2),
        ("tokens=4 fail=end", "generation: scripted failure at end", 4),
        ("tokens=4 fail_after=3", "generation: scripted failure after 3 chunks", 3),
        ("fail=timeout", "None: TimeoutError", 0),
        ("feedback=riddle", "context: unknown feedback kind 'riddle'", 0),
        ("tokens=2 feedback=x hitl_at=mid", "generation: unknown feedback kind 'x'", 1),
    ],
)
def test_an_agent_fails_in_a_stage(text: str, failure: str, chunks: int) -> None:
    done, said = acts(text)
    assert said == failure
    assert len(texts(done)) == chunks


@pytest.mark.parametrize(
    ("text", "kinds", "timeout_s"),
    [
        ("feedback=1", ["string"], 10),
        ("feedback=0", [], 10),
        ("feedback=enum,,object", ["enum", "object"], 10),
        ("hitl=text,notification,radio", ["string", "enum"], 10),
        ("feedback=free hitl=checkbox hitl_timeout=7", ["free", "array"], 7),
        ("feedback=tool feedback_timeout=0.5", ["tool"], 0.5),
    ],
)
def test_questions_are_those_of_either_word(text: str, kinds: list[str], timeout_s: float) -> None:
    done, _ = acts(text)
    asked = [act for act in done if isinstance(act, Feedback)]
    assert [act.kind for act in asked] == kinds
    assert {act.timeout_s for act in asked} <= {timeout_s}


def test_no_reply_in_time_is_said_in_the_step() -> None:
    done, _ = acts("feedback=1", reply=None)
    said = [act.value for act in done if isinstance(act, Worked) and act.module == "smart"]
    assert said == ["(No response received)"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_question_is_an_object_with_one_required_key_or_free(kind: str) -> None:
    asked = question(kind, "s1", 2.5)
    assert (asked["request_id"], asked["timeout_ms"]) == ("s1", 2500)
    schema = asked["response_schema"]
    if kind == "free":
        assert schema is None
    else:
        assert schema["required"] == list(schema["properties"])
        assert schema["required"] == ["call_tool" if kind == "tool" else "response"]


def test_an_unknown_question_is_named() -> None:
    with pytest.raises(ValueError, match="'riddle'"):
        kinds_of("enum,riddle", "")


@pytest.mark.parametrize(
    ("text", "scene"),
    [("plain", None), ("#", "plain"), ("# x", "plain"), ("#slow 2", "slow"), ("#else x", "else")],
)
def test_a_hash_names_a_scene(text: str, scene: str | None) -> None:
    assert scenario_of(text) == scene


@pytest.mark.parametrize(
    ("text", "streaming", "chunks"),
    [("x", False, 0), ("x", True, 6), ("#stream x", False, 6), ("#burst x", False, 300)],
)
def test_the_reference_agent_streams_as_the_conformance_servers(
    text: str, streaming: bool, chunks: int
) -> None:
    done = list(reference(text, streaming))
    assert len(texts(done)) == chunks
    assert sum(isinstance(act, Writing) for act in done) == (2 if chunks else 0)
    if chunks:
        assert "".join(texts(done)) == answers(done)[0]


def test_a_frame_has_all_keys_in_the_servers_order() -> None:
    frame = AragFrames(Edition.SERVER).chunk("caf\u00e9")
    assert tuple(json.loads(frame)) == KEYS
    assert '"operation":6,"seqid":null' in frame
    assert frame.endswith(
        '"streaming_response_chunk":{"text":"caf\u00e9","last":false},"reasoning":null}'
    )


@pytest.mark.parametrize(
    ("part", "hidden"),
    [
        ("context", {"prompts", "json_objects", "citations_id", "image_urls"}),
        ("step", {"metadata", "external_usage"}),
        ("possible_answer", {"citations", "chunks", "structured", "images", "image_urls",
                             "data_visualizations"}),
    ],
)  # fmt: skip
def test_the_documented_edition_knows_fewer_keys(part: str, hidden: set[str]) -> None:
    parts = AragParts("u", "q")
    made: dict[str, Any] = {
        "context": parts.context("c", "text"),
        "step": parts.step("m", "t", "v", 0.1),
        "possible_answer": parts.possible_answer("a", "/", citations("c"), None),
    }
    for edition in Edition:
        frames = AragFrames(edition)
        frame = json.loads(getattr(frames, part)(made[part]))
        assert hidden.isdisjoint(frame[part]) is edition.documented
        assert ("answer_urls" not in frame) is edition.documented


def test_frames_are_numbered_where_clients_may_come_back() -> None:
    frames = AragFrames(Edition.SERVER, numbered=True)
    assert [json.loads(f)["seqid"] for f in (frames.start(), frames.done())] == [1, 2]


@pytest.mark.parametrize(
    ("message", "problems"),
    [
        ({"operation": 0}, [("missing", ("question",))]),
        ({"question": 1}, [("string_type", ("question",))]),
        ({"question": "x", "operation": 2}, [("enum", ("operation",))]),
        ({"question": "x", "chat_history": [{}]}, [
            ("missing", ("chat_history", 0, "question")),
            ("missing", ("chat_history", 0, "answer")),
        ]),
        (["x"], [("model_type", ())]),
    ],
)  # fmt: skip
def test_a_bad_question_is_described(message: Any, problems: list[Any]) -> None:
    with pytest.raises(BadMessage) as caught:
        understood_question(message)
    assert [(error["type"], error["loc"]) for error in caught.value.errors] == problems


@pytest.mark.parametrize(
    ("message", "released", "documented"),
    [
        ({"request_id": "r", "response": "2024"}, "2024", "2024"),
        ({"request_id": "r", "response": {"a": 1}}, None, None),
        ({"response": "2024"}, None, None),
        ({"request_id": "r", "existing_credentials": {"u": "t"}}, None,
         '{"existing_credentials": {"u": {"access_token": "t"}}}'),
        ({"question": "", "operation": 1}, None, None),
    ],
)  # fmt: skip
def test_a_reply_has_a_form_in_each_edition(
    message: Any, released: str | None, documented: str | None
) -> None:
    for edition, expected in ((False, released), (True, documented)):
        if expected is None:
            with pytest.raises(BadMessage):
                understood_reply(message, edition)
        else:
            assert understood_reply(message, edition) == expected


@pytest.mark.parametrize("text", [None, "", "{", "[1", "\ud800"])
def test_what_is_no_json_text_is_no_message(text: str | None) -> None:
    with pytest.raises(NotJson):
        read_message(text)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (None, None),
        ("none", None),
        ("[]", None),
        ('{"existing_credentials": null}', None),
        (json.dumps({"existing_credentials": {CREDENTIALS_URI: {"access_token": "t"}}}),
         {"access_token": "t"}),
        (json.dumps({"existing_credentials": {"https://else": {"access_token": "t"}}}), None),
    ],
)  # fmt: skip
def test_credentials_are_found_in_a_reply(reply: str | None, expected: Any) -> None:
    assert cached_credentials(reply) == expected


def test_a_token_is_good_until_its_time_is_over() -> None:
    tokens = Tokens(life_s=2.0, single_use=False)
    usual, longer = tokens.issue(None, at_ns=0), tokens.issue(3.0, at_ns=0)
    assert tokens.accept(usual, at_ns=1_999_999_999)
    assert not tokens.accept(usual, at_ns=2_000_000_000)
    assert tokens.accept(longer, at_ns=2_000_000_000)
    assert not tokens.accept("eph-made-up", at_ns=0)


def test_a_single_use_token_opens_one_socket() -> None:
    tokens = Tokens(life_s=2.0, single_use=True)
    token = tokens.issue(None, at_ns=0)
    assert [tokens.accept(token, at_ns=1) for _ in range(2)] == [True, False]


@pytest.mark.parametrize(
    ("text", "reference_agent", "scripted"),
    [
        ("a question", False, True),
        ("a question tag=u1", True, False),
        ("a question feedback=1", True, True),
        ("a question cut=1", True, True),
        ("#feedback x tokens=3", False, False),
    ],
)
def test_words_a_scene_or_the_profile_say_what_happens(
    text: str, reference_agent: bool, scripted: bool
) -> None:
    arag = Arag(Agent(Settings(arag=AragSettings(reference=reference_agent))))
    assert (arag.plan(text).script is not None) is scripted


def test_once_means_the_first_time_a_text_is_asked() -> None:
    arag = Arag(Agent(Settings()))
    plans = [arag.plan(text) for text in ("a cut=1 once=1", "a cut=1 once=1", "b cut=1 once=1")]
    assert [plan.faults.cut for plan in plans] == [1, -1, 1]
    assert [arag.plan("a cut=1").faults.cut for _ in range(2)] == [1, 1]


def test_words_of_this_family_do_not_steer_the_other_one() -> None:
    agent = Agent(Settings())
    _, faults = agent.plan("a question feedback=1")
    assert faults.first_ms > 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [("503", TokenFailure(503, 1.0)), ("429:0.25", TokenFailure(429, 0.25)), (None, None)],
)
def test_a_token_failure_has_a_status_and_a_share(
    text: str | None, expected: TokenFailure | None
) -> None:
    assert arag_settings_from(_options(text)).token_failure == expected


@pytest.mark.parametrize("text", ["", "200", "503:2", "503:x", "503:nan", "x"])
def test_a_bad_token_failure_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match=f"--arag-token-failure: '{text}' is no status"):
        arag_settings_from(_options(text))


def test_a_bad_option_stops_the_mock_with_one_line() -> None:
    done = CliRunner().invoke(main, ["--arag-token-failure", "200"])
    assert done.exit_code != 0
    assert done.output.startswith("mockagent: --arag-token-failure: ")
    assert done.output.count("\n") == 1


def test_every_word_of_the_family_is_in_the_readme() -> None:
    readme = README.read_text(encoding="utf-8")
    named = [word.name for word in fields(AragWords)]
    named += [moment.value for moment in Moment] + list(KINDS)
    assert [name for name in named if f"`{name}`" not in readme] == []


def _options(failure: str | None) -> dict[str, Any]:
    """All options as click gives them."""
    given = {option.name: option.default for option in main.params if option.name}
    return given | {"arag_token_failure": failure}
