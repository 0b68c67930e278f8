"""A recorded load is validated before the start, and dealt out conversation by conversation."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest

from loadgen.clock import NS_PER_MS
from loadgen.dialects import DIALECTS
from loadgen.errors import ConfigError
from loadgen.pacing import Part
from loadgen.plan import Plan, parse_plan
from loadgen.replay import Entry, read_replay
from loadgen.timetable import Arrival, split, timetable

SPOKEN = {"nat-sse", "nat-ws"}


def read(
    tmp_path: Path, text: str, speed: float = 1.0, name: str = "load.csv"
) -> tuple[Entry, ...]:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_replay(path, speed, SPOKEN)


def ms(entries: tuple[Entry, ...]) -> list[tuple[float, str, str, str]]:
    return [(e.at_ns / NS_PER_MS, e.conversation, e.question, e.dialect) for e in entries]


def test_a_csv_is_read_in_the_order_of_its_times(tmp_path: Path) -> None:
    text = (
        "time,conversation,question,dialect\r\n"
        '2.5,b,"Why, and\nsince when?",nat-ws\r\n'
        "0.5,a,What is new?,\r\n"
        "\r\n"
        "1,a,And then?,\r\n"
    )
    assert ms(read(tmp_path, text, speed=2)) == [
        (250, "a", "What is new?", ""),
        (500, "a", "And then?", ""),
        (1250, "b", "Why, and\nsince when?", "nat-ws"),
    ]


def test_json_lines_may_hold_any_text(tmp_path: Path) -> None:
    rows = [{"time": 1, "question": "a\u2028b"}, {"question": "c", "time": "0.25", "dialect": None}]
    text = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    found = read(tmp_path, text, name="load.jsonl")
    assert ms(found) == [(250, "line 2", "c", ""), (1000, "line 1", "a\u2028b", "")]


def test_moments_count_from_the_earliest(tmp_path: Path) -> None:
    text = "question,time\nb,2026-11-30T10:00:01.5+01:00\na,2026-11-30T09:00:00Z\n"
    assert [(e.question, e.at_ns) for e in read(tmp_path, text)] == [("a", 0), ("b", 1_500_000_000)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "load.csv: holds no turn"),
        ("time,question\n", "load.csv: holds no turn"),
        ("time,text\n1,a\n", "load.csv:1: unknown column 'text'"),
        ("time,conversation\n1,a\n", "load.csv:1: has no column 'question'"),
        ("time,question\n1\n", "load.csv:2: has 1 columns, the first line 2"),
        ("time,question\nsoon,a\n", "load.csv:2: time must be seconds >= 0 or an ISO 8601 moment"),
        ("time,question\n-1,a\n", "load.csv:2: time must be"),
        ("time,question\nnan,a\n", "load.csv:2: time must be"),
        ("time,question\n1, \n", "load.csv:2: question must be a text that says something"),
        ("time,question,dialect\n1,a,nat-smoke\n", "load.csv:2: dialect must be one of"),
        ("time,question\n1,a\n2026-01-01,b\n", "some times are seconds and some are moments"),
        (
            "time,question,conversation,dialect\n1,a,x,nat-ws\n2,b,x,nat-sse\n",
            "load.csv:3: conversation 'x' has spoken nat-ws before",
        ),
        ('time,question\n1,"a\n', "not valid CSV"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace("(", r"\(")):
        read(tmp_path, text)


def test_all_mistakes_are_told_at_once_and_many_are_counted(tmp_path: Path) -> None:
    text = "\n".join(['{"time": 0, "question": "a"}', "{", "[]", '{"time": true, "question": "a"}'])
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text, name="load.jsonl")
    assert [line.split(" ")[0] for line in str(caught.value).splitlines()] == [
        "load.jsonl:2:", "load.jsonl:3:", "load.jsonl:4:",
    ]  # fmt: skip
    with pytest.raises(ConfigError, match=r"load\.csv: 80 more mistakes"):
        read(tmp_path, "time,question\n" + "x,a\n" * 100)


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"load\.file: cannot read .*absent\.csv"):
        read_replay(tmp_path / "absent.csv", 1.0, SPOKEN)


ENTRIES = [Entry(n, f"c{n % 5}", f"q{n}", "nat-ws" if n % 5 == 3 else "") for n in range(20)]


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_conversations_are_dealt_out_whole(parts: int) -> None:
    dealt = split(ENTRIES, parts)
    assert sorted((e for one in dealt for e in one), key=lambda e: e.at_ns) == ENTRIES
    homes = [{e.conversation for e in one} for one in dealt]
    assert sum(map(len, homes)) == 5
    assert max(map(len, homes)) - min(map(len, homes)) <= 1


def plan(**load: object) -> Plan:
    groups = [
        {"name": "desk", "dialect": "nat-ws", "weight": 30},
        {"name": "browser", "dialect": "nat-sse", "weight": 70},
    ]
    raw = {"analysts": groups, "questions": {"texts": ["q"]}, "load": load, "seed": 5}
    return parse_plan(raw, "plan.toml", DIALECTS)


def test_a_replayed_conversation_keeps_its_kind_of_analyst_and_has_an_end() -> None:
    found = list(timetable(plan(model="replay", file="x.csv"), ENTRIES, Part()))
    assert [(a.at_ns, a.conversation, a.question) for a in found] == [
        (e.at_ns, e.conversation, e.question) for e in ENTRIES
    ]
    kinds: dict[str | None, set[str]] = {}
    for arrival in found:
        kinds.setdefault(arrival.conversation, set()).add(arrival.group)
    assert all(len(kind) == 1 for kind in kinds.values())
    assert kinds["c3"] == {"desk"}
    assert [a.at_ns for a in found if a.last] == [15, 16, 17, 18, 19]


def drawn(**load: object) -> list[Arrival]:
    return list(islice(timetable(plan(**load), [], Part(1, 3)), 3000))


def test_single_turns_are_for_kinds_of_analysts_by_weight() -> None:
    found = drawn(model="open", rate=9)
    assert {a.turns for a in found} == {1}
    share = sum(a.group == "desk" for a in found) / len(found)
    assert share == pytest.approx(0.3, abs=0.03)
    assert found[-1].at_ns / 1e9 == pytest.approx(1000, rel=0.08), "a third of 9 a second"
    assert found == drawn(model="open", rate=9)


def test_conversations_have_turns() -> None:
    assert {a.turns for a in drawn(model="partly-open", rate=9)} == {5}
    lengths = [a.turns for a in drawn(
        model="partly-open", rate=9, conversation_length="geometric"
    )]  # fmt: skip
    assert sum(lengths) / len(lengths) == pytest.approx(5, rel=0.08)
