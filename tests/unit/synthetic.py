"""Run folders made up from a seed: two dialects, prompts, failures, reconnects, cut-off turns."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from loadgen.clock import NS_PER_MS, NS_PER_S, utc_text
from loadgen.flow import bucket
from loadgen.journal import Journal, new_run_folder, write_manifest

BEGIN_WALL = 1_790_000_000 * NS_PER_S
BEGIN_MONO = 5_000 * NS_PER_S
PLAN: dict[str, Any] = {
    "name": "analysts",
    "slo": [
        {"clock": "ttfv", "within_s": 2.0, "share": 0.95},
        {"clock": "ttc", "within_s": 20.0, "share": 0.95},
    ],
    "failure_budget": 0.01,
}


def row(turn: str = "t1", **facts: Any) -> dict[str, Any]:
    """A completed turn with progress at 700, answer at 4000, done at 9000; ``None`` takes a key
    away.
    """
    base: dict[str, Any] = {
        "turn": turn, "user": "analyst-1", "conversation": "c1", "scenario": "analysts",
        "dialect": "nat-sse", "route": "/v1/chat/stream", "worker": "w1",
        "started_at": utc_text(BEGIN_WALL), "stamp": "kernel", "outcome": "completed",
        "started_mono_ns": BEGIN_MONO, "scheduled_ms": 0.0, "sent_ms": 1.0, "first_byte_ms": 20.0,
        "first_progress_ms": 700.0, "first_answer_ms": 4000.0, "last_answer_ms": 8900.0,
        "ended_ms": 9000.0,
    }  # fmt: skip
    return {key: value for key, value in (base | facts).items() if value is not None}


def manifest(**facts: Any) -> dict[str, Any]:
    """The manifest of a run that came to its end; ``None`` takes a key away."""
    base: dict[str, Any] = {
        "schema": 1, "run": "20260921T141320Z-analysts", "name": "analysts",
        "scenario": "analysts", "started_at": utc_text(BEGIN_WALL),
        "ended_at": utc_text(BEGIN_WALL + 60 * NS_PER_S), "plan": PLAN, "plan_hash": "0123456789",
        "seed": 1, "target": {"host": "http://127.0.0.1:8000", "bundled_mock": True},
        "load": {"model": "closed", "users": 180, "spawn_rate": 25, "run_time_s": 60},
        "versions": {"python": "3.11.7", "loadgen": "0.1.0"},
        "host": {"hostname": "bench", "cpus": 2, "platform": "Linux"},
        "workers": [
            {"worker": "w1", "anchor_wall_ns": BEGIN_WALL, "anchor_mono_ns": BEGIN_MONO}
        ],
        "interrupted": False, "lost_workers": [],
    }  # fmt: skip
    return {key: value for key, value in (base | facts).items() if value is not None}


def folder(results: Path, rows: list[dict[str, Any]], facts: dict[str, Any] | None = None) -> Path:
    """Write a run folder the way a run does."""
    made = new_run_folder(results, "analysts", utc_text(BEGIN_WALL))
    write_manifest(made, manifest() if facts is None else facts)
    journal = Journal.open(made, "w1")
    for item in rows:
        journal.append(item)
    journal.close()
    return made


GAPS = [number for gap in (0, 20, 40, 80, 640) for number in (bucket(gap * NS_PER_MS), 8)]
"""Eight chunks of each of these gaps in ms."""


def crowd(
    users: int = 180, seconds: float = 60.0, seed: int = 1, slow: float = 1.0
) -> list[dict[str, Any]]:
    """Turns of a plausible closed run; ``slow`` stretches the wait for the first step."""
    rng = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for user in range(users):
        at_ms = user * 40.0
        while at_ms < seconds * 1000:
            turn = _turn(rng, f"t{len(rows):05d}", user, at_ms, slow)
            left_ms = seconds * 1000 + 5_000 - at_ms
            if turn["ended_ms"] > left_ms > turn["first_progress_ms"]:
                turn = _cut_off(turn, left_ms)
            rows.append(turn)
            at_ms += turn["ended_ms"] + rng.lognormvariate(8.0, 0.6)
    return rows


def _cut_off(turn: dict[str, Any], at_ms: float) -> dict[str, Any]:
    """The end of the run came ``at_ms`` after the turn's start."""
    late = {"first_answer_ms", "last_answer_ms", "recovered", "prompts", "cause"}
    kept = {key: value for key, value in turn.items() if key not in late}
    return kept | {"outcome": "cut_off", "ended_ms": at_ms, "detail": "the run ended"}


def _turn(rng: random.Random, turn: str, user: int, begin_ms: float, slow: float) -> dict[str, Any]:
    socket = rng.random() < 0.4
    connect = rng.lognormvariate(-0.5, 0.4)
    login = connect + rng.lognormvariate(0.7, 0.3)
    sent = (login if socket else connect) + 0.2
    step = sent + slow * rng.lognormvariate(4.5, 0.7)
    progress = step + rng.lognormvariate(6.3, 0.35)
    answer = progress + rng.lognormvariate(8.0, 0.3)
    ended = answer + rng.lognormvariate(8.2, 0.35)
    connection = {"begun_ms": 0.05, "connected_ms": connect}
    if socket:
        connection |= {"login_ms": connect + 0.05, "authenticated_ms": login}
    facts: dict[str, Any] = {
        "user": f"analyst-{user}", "conversation": f"c{user}",
        "dialect": "nat-ws" if socket else "nat-sse",
        "route": "/websocket" if socket else "/v1/chat/stream",
        "started_at": utc_text(BEGIN_WALL + int(begin_ms * NS_PER_MS)),
        "started_mono_ns": BEGIN_MONO + int(begin_ms * NS_PER_MS),
        "scheduled_ms": -rng.expovariate(4), "connected_ms": connect, "sent_ms": sent,
        "first_byte_ms": sent + 3, "connections": [connection],
        "max_gap_ms": rng.lognormvariate(6.5, 0.5), "gaps": GAPS,
    }  # fmt: skip
    if rng.random() < 0.2:
        human = rng.lognormvariate(8.3, 0.5)
        replied = answer + human
        facts["prompts"] = [{
            "kind": "text", "paused_ms": answer, "resumed_ms": replied, "replied": True,
            "next_event_ms": replied + rng.lognormvariate(4, 0.5),
        }]  # fmt: skip
        answer, ended = replied + 300, ended + human + 300
    if socket and rng.random() < 0.05:
        lost = step + (progress - step) / 2
        loss = {"lost_ms": lost, "during": "working", "recovered_ms": progress, "code": 1006}
        facts |= {"recovered": True, "losses": [loss]}
    facts |= {"first_step_ms": step, "first_progress_ms": progress, "first_answer_ms": answer,
              "last_answer_ms": ended - 5, "ended_ms": ended}  # fmt: skip
    return row(turn, **facts | _fate(rng, facts))


def _fate(rng: random.Random, facts: dict[str, Any]) -> dict[str, Any]:
    """One turn in a hundred does not complete."""
    luck = rng.random()
    gone = {"recovered": None, "last_answer_ms": None}
    if luck < 0.004:
        return gone | {
            "outcome": "failed", "cause": "agent_error",
            "detail": f"workflow_error: tool {rng.choice(('search', 'sql'))} raised TimeoutError",
        }  # fmt: skip
    if luck < 0.006:
        return gone | {
            "outcome": "timed_out", "cause": "stalled", "first_answer_ms": None,
            "ended_ms": facts["ended_ms"] + 60_000, "detail": "no event for 60 s", "prompts": None,
        }  # fmt: skip
    return {}
