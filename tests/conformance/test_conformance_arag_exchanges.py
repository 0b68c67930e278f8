"""Every socket dialogue and every HTTP exchange of Progress Agentic RAG, on the real Hyperforge and
on the mock: the same by shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import arag_httpbook
import arag_post
import arag_replybook
import arag_socketbook
import arag_talk
import pytest
from arag_known import KNOWN
from counterparts import Server
from known import Known, differences

Row = arag_talk.Row | arag_post.Row
ROWS: dict[str, Row] = {
    **arag_socketbook.ROWS,
    **arag_replybook.ROWS,
    **arag_httpbook.ROWS,
}
SIDES = ("real", "mock")
_AT_ONCE = 16
Played = Callable[[str], list[str]]


@pytest.fixture(scope="module")
def played(running: Callable[[str], Server]) -> Iterator[Played]:
    """Gives the differences in a row; the first to ask lets all rows be played."""
    pool = ThreadPoolExecutor(_AT_ONCE)
    playing: dict[tuple[str, str], Future[list[str]]] = {}

    def told(name: str) -> list[str]:
        if not playing:
            servers = {side: running(f"{side}-arag") for side in SIDES}
            for other, row in ROWS.items():
                for side, server in servers.items():
                    playing[side, other] = pool.submit(_play, server, row)
        real, mock = (playing[side, name].result() for side in SIDES)
        assert len(real) >= 2
        return differences(real, mock)

    yield told
    pool.shutdown()


def _play(server: Server, row: Row) -> list[str]:
    if isinstance(row, arag_talk.Row):
        return arag_talk.play(server, row)
    return arag_post.play(server, row)


@pytest.mark.parametrize("name", ROWS)
def test_the_mock_answers_as_the_real_server_does(played: Played, name: str) -> None:
    told = played(name)
    assert not told or any(known.explains(name, told) for known in KNOWN), "\n".join(told)


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.reason)
def test_a_known_difference_still_occurs(played: Played, known: Known) -> None:
    assert any(told and known.explains(name, told) for name in ROWS for told in [played(name)])
