"""A run folder of any size, made up from a seed: what `report` and `gate` are timed on.

Rows are as long as real ones and as varied as those of a bad day: two dialects on four workers,
prompts, lost sockets, failed turns with a text of their own each, rows of health a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from loadgen.clock import NS_PER_MS, NS_PER_S, utc_text
from loadgen.journal import write_manifest

BEGIN_WALL = 1_790_000_000 * NS_PER_S
BEGIN_MONO = 5_000 * NS_PER_S
ANALYSTS = 2000
WORKERS = 4
THINK_MS = 8_000.0
FAILED = 0.05
"""So many of a million turns are the 50,000 distinct texts of a bad server."""

_CHUNK = 10_000
_DRAWS = ("setup", "step", "progress", "answer", "end", "gap")

Row = dict[str, Any]


def make(folder: Path, turns: int, slower: float = 1.0, seed: int = 1) -> Path:
    """Write a run of ``turns`` turns into ``folder``; ``slower`` stretches the way to the
    answer.
    """
    folder.mkdir(parents=True)
    began = np.zeros(ANALYSTS)
    journals = [(folder / f"turns-w{n}.jsonl").open("wb") for n in range(WORKERS)]
    generator = np.random.default_rng(seed)
    for first in range(0, turns, _CHUNK):
        for row in _rows(generator, first, min(_CHUNK, turns - first), began, slower):
            line = orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
            journals[int(row["worker"][1:])].write(line)
    for journal in journals:
        journal.close()
    seconds = int(began.max() / 1000) + 1
    for n in range(WORKERS):
        _health(folder / f"health-w{n}.jsonl", f"w{n}", seconds)
    write_manifest(folder, _manifest(folder.name, seconds))
    return folder


def _rows(
    generator: np.random.Generator, first: int, number: int, began: np.ndarray, slower: float
) -> Iterator[Row]:
    drawn = generator.lognormal(0, 0.35, (len(_DRAWS), number)).tolist()
    draws, luck = dict(zip(_DRAWS, drawn, strict=True)), generator.random((3, number)).tolist()
    for n in range(number):
        turn, analyst = first + n, (first + n) % ANALYSTS
        socket = analyst % 2 == 1
        setup = round(1.5 * draws["setup"][n], 6)
        step = round(setup + 90 * draws["step"][n], 6)
        progress = round(step + 600 * draws["progress"][n], 6)
        answer = round(progress + slower * 3000 * draws["answer"][n], 6)
        human = round(6000 * draws["gap"][n], 6) if luck[0][n] < 0.1 else 0.0
        ended = round(answer + human + 3500 * draws["end"][n], 6)
        at_ms = float(began[analyst])
        began[analyst] += ended + THINK_MS
        row: Row = {
            "turn": f"{turn:032x}", "user": f"w{analyst % WORKERS}/{analyst}",
            "conversation": f"{turn // ANALYSTS // 5:016x}{analyst:016x}",
            "scenario": "analysts", "dialect": "nat-ws" if socket else "nat-sse",
            "route": "/websocket" if socket else "/v1/chat/stream",
            "worker": f"w{analyst % WORKERS}",
            "started_at": utc_text(BEGIN_WALL + int(at_ms * NS_PER_MS)),
            "analyst_group": "desk" if socket else "browser", "number": turn // ANALYSTS % 5 + 1,
            "stamp": "kernel", "first_progress_kind": "tool", "answer_chars": 181, "chunks": 48,
            "steps": 6, "events": 58, "reads": 54, "merged_reads": 2, "bytes": 36047,
            "max_burst": 4, "polls": 0, "asked_again": 0, "late_events": 0, "status": 200,
            "outcome": "completed", "started_mono_ns": BEGIN_MONO + int(at_ms * NS_PER_MS),
            "scheduled_ms": 0.0, "connected_ms": setup / 2, "sent_ms": setup,
            "first_byte_ms": setup + 3, "first_step_ms": step, "first_progress_ms": progress,
            "first_answer_ms": answer + human, "last_answer_ms": ended, "ended_ms": ended,
            "max_gap_ms": round(70 * draws["gap"][n], 6), "notices": {"echo": 1},
            "connections": [{"begun_ms": 0.05, "connected_ms": setup / 2}],
        }  # fmt: skip
        if socket:
            row["connections"][0] |= {"login_ms": setup / 2, "authenticated_ms": setup}
        if human:
            row["prompts"] = [{
                "kind": "text", "paused_ms": answer, "resumed_ms": answer + human,
                "replied": True, "next_event_ms": answer + human + 60,
            }]  # fmt: skip
        if socket and luck[1][n] < 0.05:
            lost = {"lost_ms": step, "during": "working", "recovered_ms": progress, "code": 1006}
            row |= {"recovered": True, "losses": [lost]}
        if luck[2][n] < FAILED:
            row |= {
                "outcome": "failed", "cause": "agent_error",
                "detail": f"workflow_error: tool search raised TimeoutError, request {turn:08x}",
            }  # fmt: skip
            del row["last_answer_ms"]
        yield row


def _health(path: Path, process: str, seconds: int) -> None:
    with path.open("wb") as journal:
        for n in range(seconds):
            row = {
                "process": process, "n": n, "wall_ns": BEGIN_WALL + n * NS_PER_S,
                "mono_ns": BEGIN_MONO + n * NS_PER_S, "span_ms": 1000.0,
                "lags_ms": [0.3] * 18 + [1.0] * 2, "in_flight": 200, "turns": 30, "reads": 1600,
                "user_reads": 0, "merged_reads": 8, "gc_pauses": 2, "gc_ms": 1.0,
                "gc_max_ms": 0.6, "cpu": 0.3, "machine_cpu": 0.5, "rss": 80 << 20, "swap": 0,
                "sockets": 300, "descriptors": 345, "descriptor_limit": 20_000,
                "disk_free": 50 << 30,
            }  # fmt: skip
            journal.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))


def _manifest(name: str, seconds: int) -> dict[str, Any]:
    anchors = {"anchor_wall_ns": BEGIN_WALL, "anchor_mono_ns": BEGIN_MONO}
    plan = {
        "name": "analysts",
        "slo": [
            {"clock": "ttfv", "within_s": 2.0, "share": 0.95},
            {"clock": "ttc", "within_s": 20.0, "share": 0.90},
        ],
        "failure_budget": 0.1,
    }
    return {
        "schema": 1, "run": name, "name": "analysts", "scenario": "analysts",
        "started_at": utc_text(BEGIN_WALL), "ended_at": utc_text(BEGIN_WALL + seconds * NS_PER_S),
        "plan": plan, "plan_hash": "0123456789", "seed": 1,
        "target": {"host": "http://127.0.0.1:8000", "bundled_mock": True},
        "load": {
            "model": "closed", "users": ANALYSTS, "spawn_rate": 100, "run_time_s": seconds,
        },
        "versions": {"loadgen": "0"}, "host": {"hostname": "bench", "cpus": 2},
        "workers": [{"worker": f"w{n}", **anchors} for n in range(WORKERS)],
        "interrupted": False, "lost_workers": [],
    }  # fmt: skip
