from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from synthetic import row

from loadgen.errors import GeneratorError, RunError
from loadgen.journal import Journal, find_run, new_run_folder, read_run, write_manifest

NOW = "2026-09-21T14:13:20.123456Z"


def journal(folder: Path, process: str, *turns: str) -> Journal:
    made = Journal.open(folder, process)
    for turn in turns:
        made.append(row(turn))
    return made


def test_the_union_of_all_journals_holds_each_turn_once(tmp_path: Path) -> None:
    journal(tmp_path, "w1", "a", "b").close()
    journal(tmp_path, "master", "b", "c").close()
    run = read_run(tmp_path)
    assert sorted(item["turn"] for item in run.rows) == ["a", "b", "c"]
    assert (run.duplicates, run.conflicts, run.torn_lines) == (1, 0, 0)
    assert run.files == ("turns-master.jsonl", "turns-w1.jsonl")


def test_one_turn_id_for_two_different_turns_is_a_conflict(tmp_path: Path) -> None:
    made = journal(tmp_path, "w1", "a")
    made.append(row("a", ended_ms=1.0))
    made.close()
    assert (read_run(tmp_path).duplicates, read_run(tmp_path).conflicts) == (1, 1)


@pytest.mark.parametrize(
    "line",
    [b'{"turn":"b","outc', b"\xff\xfe", b"[1]\n", b'{"outcome":"failed"}\n', b"null\n"],
    ids=["torn", "not text", "a list", "no turn", "null"],
)
def test_a_line_that_is_no_turn_is_counted(tmp_path: Path, line: bytes) -> None:
    journal(tmp_path, "w1", "a").close()
    with (tmp_path / "turns-w1.jsonl").open("ab") as stream:
        stream.write(line)
    run = read_run(tmp_path)
    assert ([item["turn"] for item in run.rows], run.torn_lines) == (["a"], 1)


def test_a_journal_taken_up_after_a_torn_line_loses_nothing_more(tmp_path: Path) -> None:
    (tmp_path / "turns-w1.jsonl").write_bytes(b'{"turn":"torn')
    journal(tmp_path, "w1", "a").close()
    run = read_run(tmp_path)
    assert ([item["turn"] for item in run.rows], run.torn_lines) == (["a"], 1)


def test_what_append_returned_from_survives_kill_9(tmp_path: Path) -> None:
    script = (
        "import sys, os, signal, pathlib\n"
        "from loadgen.journal import Journal\n"
        "journal = Journal.open(pathlib.Path(sys.argv[1]), 'w1')\n"
        "for number in range(100): journal.append({'turn': str(number), 'outcome': 'completed'})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=root, check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(read_run(tmp_path).rows) == 100


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_our_fault_and_is_remembered(tmp_path: Path) -> None:
    (tmp_path / "turns-w1.jsonl").symlink_to("/dev/full")
    made = Journal.open(tmp_path, "w1")
    for turn in ("a", "b"):
        with pytest.raises(GeneratorError, match=r"turns-w1\.jsonl: cannot write turn a: No space"):
            made.append(row(turn))
    assert made.failure is not None
    made.close()
    made.close()


def test_a_folder_that_cannot_hold_a_journal_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(GeneratorError, match="cannot open the journal"):
        Journal.open(tmp_path / "missing", "w1")
    with pytest.raises(GeneratorError, match=r"manifest\.json: cannot write"):
        write_manifest(tmp_path / "missing", {})


def test_run_folders_are_named_by_time_and_never_shared(tmp_path: Path) -> None:
    names = [new_run_folder(tmp_path, "my run/../x", NOW).name for _ in range(3)]
    assert names[0] == "20260921T141320Z-my-run-..-x"
    assert len(set(names)) == 3


def test_a_manifest_is_replaced_as_a_whole(tmp_path: Path) -> None:
    write_manifest(tmp_path, {"run": "one"})
    write_manifest(tmp_path, {"run": "two"})
    assert read_run(tmp_path).manifest == {"run": "two"}
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


@pytest.mark.parametrize("content", [None, "{broken", "[]"])
def test_a_manifest_that_cannot_be_read_does_not_hide_the_turns(
    tmp_path: Path, content: str | None
) -> None:
    journal(tmp_path, "w1", "a").close()
    if content is not None:
        (tmp_path / "manifest.json").write_text(content)
    run = read_run(tmp_path)
    assert run.manifest == {}
    assert run.manifest_error.startswith("manifest.json: ")
    assert len(run.rows) == 1


def test_a_run_is_found_by_path_by_name_and_as_the_latest(tmp_path: Path) -> None:
    older = new_run_folder(tmp_path, "a", "2026-09-21T10:00:00.000000Z")
    newer = new_run_folder(tmp_path, "a", "2026-09-21T11:00:00.000000Z")
    (tmp_path / "baselines").mkdir()
    new_run_folder(tmp_path, "empty", "2026-09-21T12:00:00.000000Z")
    for folder in (older, newer):
        write_manifest(folder, {})
    assert find_run(tmp_path, "latest") == newer
    assert find_run(tmp_path, older.name) == older
    assert find_run(tmp_path / "elsewhere", str(older)) == older


@pytest.mark.parametrize("run", ["latest", "nowhere"])
def test_a_run_that_is_not_there_is_one_sentence(tmp_path: Path, run: str) -> None:
    with pytest.raises(RunError, match="run"):
        find_run(tmp_path, run)
    with pytest.raises(RunError, match="not a run folder"):
        read_run(tmp_path)


def test_rows_are_read_again_from_where_they_lie(tmp_path: Path) -> None:
    """Two journals of a run, the second with a copy, a torn line and an empty one between."""
    rows = [{"turn": str(n), "outcome": "completed", "text": "é" * n} for n in range(6)]
    lines = [json.dumps(item, ensure_ascii=False) for item in rows]
    (tmp_path / "turns-a.jsonl").write_text("\n".join(lines[:3]) + "\n")
    (tmp_path / "turns-b.jsonl").write_text(
        "\n".join([lines[3], lines[1], '{"turn": "9', "", lines[4], lines[5]])
    )
    run = read_run(tmp_path)
    assert (len(run.rows), run.duplicates, run.torn_lines, run.conflicts) == (6, 1, 1, 0)
    assert [*run.rows] == rows
    assert run.rows[-1] == rows[-1]
    assert run.rows[1:5:2] == rows[1:5:2]
    assert [*run.rows_at([5, 0, 3])] == [rows[5], rows[0], rows[3]]


def test_a_copy_that_says_the_same_in_other_words_is_no_conflict(tmp_path: Path) -> None:
    (tmp_path / "turns-a.jsonl").write_text('{"turn": "t", "outcome": "completed"}\n')
    (tmp_path / "turns-b.jsonl").write_text('{"outcome":"completed","turn":"t"}\n')
    (tmp_path / "turns-c.jsonl").write_text('{"outcome":"failed","turn":"t"}\n')
    run = read_run(tmp_path)
    assert (run.duplicates, run.conflicts) == (2, 1)
