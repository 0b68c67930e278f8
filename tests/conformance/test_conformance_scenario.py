"""The analysts scenario by Locust, against the real server and against the mock.

Beside the 20 analysts six others ask what the workflow fails at, and a client that is not ours asks
the same questions, so that its times are of the same minute on the same machine.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import bareclient
import pytest
from counterparts import Server
from locustrun import Locust

from loadgen.errors import ExitCode
from loadgen.journal import RunData
from loadgen.metrics import Clock, impossible, turn_clocks
from loadgen.plan import load_plan

_HERE = Path(__file__).parent
GOOD, BAD = _HERE / "nat_analysts.toml", _HERE / "nat_failures.toml"
RUN_TIME_S = 20
REFERENCE_TURNS = 8

SCRIPTED_MS = {Clock.TTFP: 400, Clock.TTFA: 440, Clock.TTC: 880}
"""What the words of nat_analysts.toml ask for, in ms of the server's time: nothing is faster."""

TEXTS = ("2024", "policy year 2023", "commercial property", "the Bavarian portfolio")
OFFERED = {
    "text": TEXTS,
    "binary_choice": ("continue", "cancel"),
    "radio": ("email", "sms", "push"),
    "checkbox": ("email", "sms", "push"),
    "dropdown": ("email", "sms", "push"),
    "notification": ("Notification acknowledgement.",),
}
FAILURES = (
    "scripted failure at start",
    "scripted failure at steps",
    "scripted failure at answer",
    "scripted failure at mid",
    "scripted failure at end",
    "scripted failure after 3 chunks",
    "HITL prompt timed out after 1s",
)
_ANSWER = re.compile(
    r"w0 w1 w2 w3 w4 w5 (?:\[hitl (?P<kind>\w+):(?P<value>.+)\] )?"
    r"w6 w7 w8 w9 w10 w11 tag=(?P<tag>\w+)"
)


@dataclass(frozen=True)
class Scenario:
    """What the two runs left, and the times of the reference in ms."""

    good: RunData
    bad: RunData
    exit_codes: tuple[int, int]
    output: str
    reference: dict[str, list[dict[str, float]]]

    def rows(self, dialect: str) -> list[dict[str, Any]]:
        """The turns of the 20 analysts over ``dialect``."""
        return [row for row in self.good.rows if row["dialect"] == dialect]


@pytest.fixture(scope="module", params=["real", "mock"])
def scenario(
    request: pytest.FixtureRequest,
    running: Callable[[str], Server],
    tmp_path_factory: pytest.TempPathFactory,
) -> Scenario:
    server = running(request.param)
    results = tmp_path_factory.mktemp("results")
    locusts = [
        Locust(plan, server, results, users=users, rate=20, seconds=RUN_TIME_S)
        for plan, users in ((GOOD, 20), (BAD, 6))
    ]
    reference: dict[str, list[dict[str, float]]] = {"nat-sse": [], "nat-ws": []}
    asking = threading.Thread(target=_ask_for_reference, args=(server, reference))
    asking.start()
    try:
        good, bad = (locust.result() for locust in locusts)
    finally:
        asking.join()
    codes = (good.exit_code, bad.exit_code)
    return Scenario(good.data, bad.data, codes, f"{good.output}\n{bad.output}", reference)


def _ask_for_reference(server: Server, found: dict[str, list[dict[str, float]]]) -> None:
    """Turns with a prompt, replied to at once: the most that the server does in a turn."""
    script = load_plan(GOOD).script
    assert script is not None
    question = f"{script.words} hitl=radio {script.prompt_words}"
    for _ in range(REFERENCE_TURNS):
        for dialect, ask in (("nat-sse", bareclient.ask_sse), ("nat-ws", bareclient.ask_ws)):
            found[dialect].append(bareclient.milestones(ask(server, question)))


def test_all_analysts_asked_and_every_turn_is_on_record_once(scenario: Scenario) -> None:
    for run, users in ((scenario.good, 20), (scenario.bad, 6)):
        assert len({row["user"] for row in run.rows}) == users
        assert (run.torn_lines, run.duplicates, run.manifest_error) == (0, 0, "")
        assert {row["dialect"] for row in run.rows} == {"nat-sse", "nat-ws"}
        assert [row["turn"] for row in run.rows if impossible(row)] == []


def test_every_good_question_was_answered(scenario: Scenario) -> None:
    bad = [row for row in scenario.good.rows if row["outcome"] != "completed"]
    assert bad == [], scenario.output
    # A busy machine may make the run no evidence of speed; but nothing was missed.
    assert scenario.exit_codes[0] in (ExitCode.PASS, ExitCode.INVALID, ExitCode.INCONCLUSIVE)


def test_every_answer_is_whole_and_the_turns_own(scenario: Scenario) -> None:
    for row in scenario.good.rows:
        answer = _ANSWER.fullmatch(row["answer"])
        assert answer, row["answer"]
        assert answer["tag"] == row["tag"] == row["tag_seen"]
        replied = [prompt["kind"] for prompt in row.get("prompts", ()) if prompt["replied"]]
        if answer["kind"] != "notification":
            assert replied == ([answer["kind"]] if answer["kind"] else []), row
        if answer["kind"]:
            assert answer["value"] in OFFERED[answer["kind"]]


@pytest.mark.parametrize("dialect", ["nat-sse", "nat-ws"])
def test_prompts_of_every_kind_came_over_both_transports(scenario: Scenario, dialect: str) -> None:
    asked = {_ANSWER.fullmatch(row["answer"])["kind"] for row in scenario.rows(dialect)}
    assert asked == {None, *OFFERED}


@pytest.mark.parametrize("group", ["desk", "archive"])
def test_turns_that_lost_their_socket_at_a_prompt_were_taken_up_again(
    scenario: Scenario, group: str
) -> None:
    rows = [row for row in scenario.good.rows if row["analyst_group"] == group]
    dropped = [row for row in rows if row["notices"].get("dropped_at_prompt")]
    assert len(dropped) >= 2
    for row in dropped:
        assert [loss["during"] for loss in row["losses"] if loss["during"] != "idle"] == ["prompt"]
        assert [prompt["replied"] for prompt in row["prompts"]] == [False, True]
        (resumed,) = (link for link in row["connections"] if link.get("resumes"))
        assert resumed["authenticated_ms"] > resumed["login_ms"] >= resumed["connected_ms"]
        assert row["recovered"]


@pytest.mark.parametrize("group", ["desk", "archive"])
def test_sockets_lost_between_turns_were_made_again_and_others_kept(
    scenario: Scenario, group: str
) -> None:
    rows = [row for row in scenario.good.rows if row["analyst_group"] == group]
    idle = [row for row in rows if "idle" in [loss["during"] for loss in row.get("losses", ())]]
    assert len(idle) >= 2
    assert all("authenticated_ms" in row["connections"][0] for row in idle)
    assert sum("connections" not in row for row in rows) > len(idle)


@pytest.mark.parametrize("dialect", ["nat-sse", "nat-ws"])
@pytest.mark.parametrize("clock", SCRIPTED_MS)
def test_the_scripted_times_come_back(scenario: Scenario, dialect: str, clock: Clock) -> None:
    """Never faster than scripted, however often the analyst paused; and of the turns that kept
    their connection, with a prompt or without, half are no later than a plain client at its worst,
    thrice over: a client that reads late, or counts pauses, is later by far.
    """
    scripted = SCRIPTED_MS[clock]
    rows = scenario.rows(dialect)
    assert min(turn_clocks(row)[clock] for row in rows) >= scripted
    reference = [turn[clock] - scripted for turn in scenario.reference[dialect]]
    assert len(reference) == REFERENCE_TURNS
    assert min(reference) >= 0
    for paused in (False, True):
        clocks = [turn_clocks(row) for row in rows if "losses" not in row]
        late = [turn[clock] - scripted for turn in clocks if (turn[Clock.HUMAN] > 0) == paused]
        assert len(late) >= 5
        assert median(late) <= 3 * max(reference)


def test_no_failing_turn_passes_for_a_good_one(scenario: Scenario) -> None:
    judged = {(row["outcome"], row["cause"]) for row in scenario.bad.rows}
    assert judged == {("failed", "agent_error")}


@pytest.mark.parametrize("dialect", ["nat-sse", "nat-ws"])
def test_every_way_to_fail_is_told_apart(scenario: Scenario, dialect: str) -> None:
    rows = [row for row in scenario.bad.rows if row["dialect"] == dialect]
    told = {row["turn"]: [text for text in FAILURES if text in row["detail"]] for row in rows}
    assert all(len(texts) == 1 for texts in told.values()), rows
    assert {texts[0] for texts in told.values()} == set(FAILURES)
    chunks = {"at mid": 3, "at end": 6, "after 3 chunks": 3}
    for row in rows:
        for where, count in chunks.items():
            if f"failure {where}" in row["detail"]:
                assert row["chunks"] == count
