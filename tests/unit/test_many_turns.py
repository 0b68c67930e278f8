"""A run like those that `tests/bench/reports.py` times, but small."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import numpy as np
import pytest

from loadgen.analysis import frame
from loadgen.analysis.summary import summarise
from loadgen.journal import RunData
from loadgen.report.page import render
from tests.bench import bulk

TURNS = 6000


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    return frame.read(bulk.make(tmp_path_factory.mktemp("results") / "20260921T000000Z-b", TURNS))


@pytest.fixture(scope="module")
def summary(run: RunData) -> dict[str, Any]:
    return summarise(run)


@pytest.fixture(scope="module")
def page(run: RunData, summary: dict[str, Any]) -> str:
    return render(run, summary)


def test_the_generated_run_is_one_that_a_generator_could_have_made(summary: dict[str, Any]) -> None:
    assert summary["verdict"] != "INVALID", summary["reasons"]
    assert all(check["ok"] for check in summary["validity"])
    assert summary["turns"]["started"] == TURNS
    assert 0.03 * TURNS < summary["turns"]["failed"] < 0.07 * TURNS
    assert summary["turns"]["with_prompts"] > 0
    assert summary["metrics"]["recovery"]["n"] > 0
    assert {*summary["dialects"]} == {"nat-sse", "nat-ws"}


@pytest.mark.case("D-68")
def test_texts_that_differ_each_time_are_counted_and_few_are_shown(
    summary: dict[str, Any], page: str
) -> None:
    (failures,) = summary["failures"]
    assert failures["n"] == len(failures["details"]) + failures["other_details"] > 200
    assert len(page.encode()) <= 6_000_000
    assert len({*re.findall(r"request [0-9a-f]{8}", page)}) <= 30


@pytest.mark.case("D-68")
def test_what_is_left_out_of_a_chart_is_not_its_extremes(
    summary: dict[str, Any], page: str
) -> None:
    slowest = summary["metrics"]["ttc"]["max_ms"] / 1000
    figure = re.search(r'id="figure-ecdf">(.*?)</script>', page, re.DOTALL)
    assert figure is not None
    lines = [trace for trace in json.loads(figure[1])["data"] if trace.get("name") == "completion"]
    assert slowest == pytest.approx(max(x for line in lines for x in values(line["x"])), rel=1e-3)


def values(data: object) -> list[float]:
    """Plotly writes arrays as base64."""
    if isinstance(data, dict):
        return list(np.frombuffer(base64.b64decode(data["bdata"]), dtype=data["dtype"]))
    assert isinstance(data, list)
    return data


def test_a_run_that_was_read_has_its_tables_already(run: RunData) -> None:
    again = RunData(run.folder, run.manifest, [*run.rows])
    assert frame.turns(run).equals(frame.turns(again))
    assert frame.happened(run).equals(frame.happened(again))
