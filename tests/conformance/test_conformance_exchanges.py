"""Every exchange of the httpbook, every dialogue of the socketbook and all of the tokenbook, on the
real server and on the mock: the same by shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import exchange
import httpbook
import pytest
import socketbook
import sockettalk
import tokenbook
from counterparts import Server
from known import KNOWN, Known, differences

ROWS: dict[str, exchange.Row | sockettalk.Row] = {
    **httpbook.ROWS,
    **socketbook.ROWS,
    **tokenbook.ROWS,
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
            kinds = {row.kind for row in ROWS.values()}
            servers = {
                (side, kind): running(f"{side}-{kind}" if kind else side)
                for side in SIDES
                for kind in kinds
            }
            for other, row in ROWS.items():
                for side in SIDES:
                    server = servers[side, row.kind]
                    playing[side, other] = pool.submit(_play, server, row)
        real, mock = (playing[side, name].result() for side in SIDES)
        assert len(real) >= 2
        return differences(real, mock)

    yield told
    pool.shutdown()


def _play(server: Server, row: exchange.Row | sockettalk.Row) -> list[str]:
    if isinstance(row, sockettalk.Row):
        return sockettalk.play(server, row)
    return exchange.play(server, row)


@pytest.mark.parametrize("name", ROWS)
def test_the_mock_answers_as_the_real_server_does(played: Played, name: str) -> None:
    told = played(name)
    assert not told or any(known.explains(name, told) for known in KNOWN), "\n".join(told)


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.reason)
def test_a_known_difference_still_occurs(played: Played, known: Known) -> None:
    assert any(told and known.explains(name, told) for name in ROWS for told in [played(name)])
