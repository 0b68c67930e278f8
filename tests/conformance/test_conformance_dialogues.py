"""Each dialogue of the casebook, on the real server and on the mock."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest
from casebook import CASES, ENTRIES
from counterparts import Server
from dialogue import Row, facts
from gevent.pool import Pool

from loadgen.metrics import impossible

_AT_ONCE = 20
STRAYS = {"steps", "notices", "late_events", "progress", "milestones"}
"""What the closing step of somebody else's abandoned run, which the real server may put into any
stream, can change: a dialogue that differs in no other way is played once more.
"""

Played = Callable[[str, str, str], list[dict[str, Any]]]
BY_ENTRY = pytest.mark.parametrize(("name", "dialect"), ENTRIES, ids=lambda text: text)


@pytest.fixture(scope="module")
def played(running: Callable[[str], Server]) -> Played:
    """Gives the rows of a case on a server over a dialect.

    The first to ask lets all cases of that server and dialect be played, each by an analyst of its
    own, many at the same time: that is quick, and answers that crossed would show.  All end before
    the first is looked at: a test that starts the next server stops every greenlet for seconds, and
    an analyst that thinks meanwhile finds its connection too old.
    """
    playing: dict[tuple[str, str, str], Any] = {}
    pool = Pool(_AT_ONCE)

    def rows(server: str, dialect: str, name: str) -> list[dict[str, Any]]:
        if (server, dialect, name) not in playing:
            others = [other for other, spoken in ENTRIES if spoken == dialect]
            places = {
                kind: running(f"{server}-{kind}" if kind else server)
                for kind in {CASES[other].kind for other in others}
            }
            for other in others:
                case = CASES[other]
                play = pool.apply_async(case.play, (places[case.kind], dialect))
                playing[server, dialect, other] = play
            pool.join()
        found: list[dict[str, Any]] = playing[server, dialect, name].get()
        return found

    return rows


@BY_ENTRY
def test_every_turn_is_judged_as_its_question_asks(
    server: Server, played: Played, name: str, dialect: str
) -> None:
    rows = played(server.name, dialect, name)
    for row, expected in zip(rows, CASES[name].turns, strict=True):
        found = facts(row)
        said = expected.get("says", ())
        wanted = {key: value for key, value in expected.items() if key != "says"}
        assert {key: found[key] for key in wanted} == wanted, row
        assert all(words in found["detail"] for words in said), found["detail"]
        assert impossible(row) is None, row


@BY_ENTRY
def test_the_mock_leaves_the_record_that_the_real_server_leaves(
    played: Played, running: Callable[[str], Server], name: str, dialect: str
) -> None:
    case = CASES[name]
    race = {*case.race}
    if not any("replies" in turn for turn in case.turns):
        race.add("replies")  # whether the acknowledgement or the end of the turn comes first
    told = _differences(*(played(side, dialect, name) for side in ("real", "mock")), race)
    if told and told.keys() <= STRAYS:
        places = (
            running(f"{side}-{case.kind}" if case.kind else side) for side in ("real", "mock")
        )
        told = _differences(*(case.play(place, dialect) for place in places), race)
    assert told == {}


def _differences(real: list[Row], mock: list[Row], race: Collection[str]) -> dict[str, Any]:
    """The facts that differ, and how."""
    return {
        key: (ours[key], theirs[key])
        for ours, theirs in zip(map(facts, real), map(facts, mock), strict=True)
        for key in ours
        if key not in race and ours[key] != theirs[key]
    }


@pytest.mark.parametrize(("dialect", "status"), [("nat-sse", 204), ("nat-ws", None)])
def test_only_a_reply_by_request_has_a_status(
    server: Server, played: Played, dialect: str, status: int | None
) -> None:
    for kind in ("text", "binary_choice", "radio", "checkbox", "dropdown"):
        (row,) = played(server.name, dialect, f"prompts: {kind}")
        assert [prompt.get("reply_status") for prompt in row["prompts"]] == [status], kind
