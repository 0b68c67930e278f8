"""Each dialogue of the casebook, on the real server and on the mock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gevent
import pytest
from casebook import CASES, ENTRIES
from counterparts import Server
from dialogue import facts

from loadgen.metrics import impossible

Played = Callable[[str, str, str], list[dict[str, Any]]]
BY_ENTRY = pytest.mark.parametrize(("name", "dialect"), ENTRIES, ids=lambda text: text)


@pytest.fixture(scope="module")
def played(running: Callable[[str], Server]) -> Played:
    """Gives the rows of a case on a server over a dialect.

    The first to ask lets all cases of that server and dialect be played, each by an analyst of its
    own, at the same time: that is quick, and answers that crossed would show.
    """
    playing: dict[tuple[str, str, str], Any] = {}

    def rows(server: str, dialect: str, name: str) -> list[dict[str, Any]]:
        if (server, dialect, name) not in playing:
            place = running(server)
            for other, spoken in ENTRIES:
                if spoken == dialect:
                    play = gevent.spawn(CASES[other].play, place, dialect)
                    playing[server, dialect, other] = play
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
    played: Played, name: str, dialect: str
) -> None:
    race = CASES[name].race
    real, mock = (
        [
            {key: value for key, value in facts(row).items() if key not in race}
            for row in played(server, dialect, name)
        ]
        for server in ("real", "mock")
    )
    assert mock == real


@pytest.mark.parametrize(("dialect", "status"), [("nat-sse", 204), ("nat-ws", None)])
def test_only_a_reply_by_request_has_a_status(
    server: Server, played: Played, dialect: str, status: int | None
) -> None:
    for kind in ("text", "binary_choice", "radio", "checkbox", "dropdown"):
        (row,) = played(server.name, dialect, f"prompts: {kind}")
        assert [prompt.get("reply_status") for prompt in row["prompts"]] == [status], kind
