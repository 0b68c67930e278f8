"""What a service says of its own work, beside the clocks."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic import manifest, row

from loadgen.analysis import frame, work
from loadgen.analysis.summary import summarise
from loadgen.journal import RunData


def _run(rows):
    return RunData(Path(), manifest(), rows)


def _found(rows):
    run = _run(rows)
    return work.find(run, frame.turns(run))


def _spent(seconds, steps=1, tokens=(0.0, 0.0)):
    return {
        "seconds": seconds, "steps": steps, "input_tokens": tokens[0], "output_tokens": tokens[1]
    }  # fmt: skip


TURNS = [
    row("t1", dialect="arag-ws", ended_ms=8000.0, work={
        "rephrase": _spent(1.0, 1, (10, 2)), "summarize": _spent(3.0, 2, (100, 40)),
    }, chunks_match=True, citations=3, unresolved_citations=1, visualizations=0),
    row("t2", dialect="arag-ws", ended_ms=4000.0, work={"rephrase": _spent(1.0)},
        chunks_match=False, citations=2, unresolved_citations=0, visualizations=1),
    row("t3", dialect="arag-ws", ended_ms=2000.0, work={"rephrase": _spent(4.0)}, citations=0),
    row("t4", dialect="arag-ws", outcome="failed", work={"rephrase": _spent(99.0)}),
    row("t5"),
]  # fmt: skip


def test_modules_are_summed_over_completed_turns_the_dearest_first():
    (found,) = _found(TURNS).values()
    names = [(m.name, m.turns, m.steps, m.seconds) for m in found.modules]
    assert names == [("rephrase", 3, 3, 6.0), ("summarize", 1, 2, 3.0)]
    assert (found.modules[1].input_tokens, found.modules[1].output_tokens) == (100, 40)


def test_reported_work_stands_beside_the_measured_completion():
    (found,) = _found(TURNS).values()
    assert (found.turns, found.work_ms, found.ttc_ms) == (3, 4000, 4000)
    assert found.share == pytest.approx(0.5), "of 4 s in 8, 1 s in 4, 4 s in 2"


def test_lost_chunks_and_citations_of_nothing_are_counted_and_said():
    found = _found(TURNS)
    (told,) = found.values()
    assert (told.lost_chunks, told.compared) == (1, 2)
    assert (told.unresolved, told.citations, told.visualizations) == (1, 5, 1)
    assert list(work.sentences(found)) == [
        "1 of 2 arag-ws turns (50 %) lost answer chunks: the chunks do not add up to the answer",
        "1 of 5 citations of arag-ws name a source that was never shown",
    ]


def test_a_run_whose_services_tell_nothing_has_no_such_section():
    assert _found([row("t1")]) == {}
    assert summarise(_run([row("t1")]))["work"] == {}


def test_the_summary_has_it_in_ms_and_its_sentences_among_the_notes():
    summary = summarise(_run(TURNS))
    told = summary["work"]["arag-ws"]
    assert told["modules"][0] == {
        "module": "rephrase", "turns": 3, "steps": 3, "total_ms": 6000.0, "mean_ms": 2000.0,
        "input_tokens": 10, "output_tokens": 2,
    }  # fmt: skip
    assert any("lost answer chunks" in note for note in summary["notes"])
