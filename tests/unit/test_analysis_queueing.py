"""Turns that wait inside the service: the wait, and how many ran at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic import BEGIN_MONO, folder, row

from loadgen.analysis.summary import summarise
from loadgen.clock import NS_PER_MS
from loadgen.journal import read_run


def queue(slots: int, analysts: int, busy_ms: int, **facts: object) -> list[dict]:
    """A closed crowd without think time before ``slots`` places, each turn busy for ``busy_ms``."""
    free = [0.0] * slots
    at = {user: 10.0 * user for user in range(analysts)}
    rows = []
    for number in range(analysts * 8):
        user = min(at, key=at.__getitem__)
        begin, place = at[user], min(range(slots), key=free.__getitem__)
        start = max(begin + 2, free[place])
        free[place] = at[user] = end = start + busy_ms
        rows.append(
            row(
                f"t{number}",
                status=200,
                sent_ms=1.0,
                first_byte_ms=12.0,
                started_mono_ns=BEGIN_MONO + int(begin * NS_PER_MS),
                first_step_ms=start - begin,
                first_progress_ms=start - begin + 1,
                first_answer_ms=start - begin + 2,
                last_answer_ms=end - begin,
                ended_ms=end - begin,
                **facts,
            )
        )
    return rows


def found(tmp_path: Path, rows: list[dict]) -> dict:
    return summarise(read_run(folder(tmp_path, rows)))


@pytest.mark.parametrize(("slots", "analysts"), [(8, 40), (3, 12)])
def test_a_service_with_slots_shows_its_queue_and_its_slots(tmp_path, slots, analysts):
    summary = found(tmp_path, queue(slots, analysts, 1000))
    seen = summary["queueing"]
    assert seen["running"] == pytest.approx(slots, rel=0.03)
    assert seen["in_flight"] == pytest.approx(analysts, rel=0.03)
    # Little's law for the whole crowd: each turn takes analysts / slots seconds, one of them busy.
    assert seen["wait_p50_ms"] == pytest.approx((analysts / slots - 1) * 1000, rel=0.1)
    assert seen["headers_p50_ms"] == 11.0
    sentence = summary["notes"][0]
    assert sentence.startswith("turns queued inside the service: response headers came within 11")
    assert f"about {seen['running']:.1f} of {seen['in_flight']:.1f} open turns ran" in sentence


def test_a_service_with_room_shows_none(tmp_path):
    assert found(tmp_path, queue(40, 40, 1000))["queueing"] is None


def test_on_sockets_there_are_no_headers_to_compare_with(tmp_path):
    rows = [{k: v for k, v in r.items() if k != "status"} for r in queue(4, 20, 1000)]
    summary = found(tmp_path, rows)
    assert summary["queueing"]["headers_p50_ms"] is None
    assert "headers" not in summary["notes"][0]


def test_headers_that_are_late_themselves_are_no_queue_behind_them(tmp_path):
    rows = [{**r, "first_byte_ms": r["first_step_ms"] - 1} for r in queue(4, 20, 1000)]
    assert found(tmp_path, rows)["queueing"] is None


def test_some_turns_prove_nothing(tmp_path):
    assert found(tmp_path, queue(1, 2, 5000))["queueing"] is None


def test_a_first_step_that_is_progress_says_nothing_of_a_place(tmp_path):
    rows = [{**r, "first_progress_ms": r["first_step_ms"]} for r in queue(4, 20, 1000)]
    assert found(tmp_path, rows)["queueing"] is None
