"""The journal under crashes, growth and odd text."""

from __future__ import annotations

import json
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from spectui.store import journal


def test_rows_come_back_as_written(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with journal.Writer(path) as writer:
        writer.row("head", schema=1, arms=[{"name": "A"}])
        writer.row("sample", t=12.5, tokens=3, shares=(1, 2))
    rows = list(journal.read(path))
    assert [row["kind"] for row in rows] == ["head", "sample"]
    assert rows[1] == {"t": 12.5, "kind": "sample", "tokens": 3, "shares": [1, 2]}
    assert rows[0]["t"] > 1_600_000_000


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text("")
    path.chmod(0o644)
    with journal.Writer(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("torn", [b'{"t": 3, "kind": "sam', b'{"t": 3, "text": "\xe4\xbd', b"\x00\x00"])
def test_a_torn_last_line_survives(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'{"t": 1, "kind": "head"}\n{"t": 2, "kind": "sample"}\n' + torn)
    assert [row["t"] for row in journal.read(path)] == [1, 2]
    with journal.Writer(path) as writer:
        writer.row("end", t=4, status="failed", reason="")
    assert [row["t"] for row in journal.read(path)] == [1, 2, 4], "the next row begins a line of its own"


def test_half_a_surrogate_pair_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with journal.Writer(path) as writer:
        writer.row("note", t=1, detail=["a\ud83d", {"k\udc00": "\ud83d\ude80"}])
    assert next(journal.read(path))["detail"] == ["a�", {"k�": "🚀"}]


def test_numbers_that_json_has_not_are_null(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with journal.Writer(path) as writer:
        writer.row("sample", t=1, value=float("nan"))
    assert next(journal.read(path))["value"] is None


def test_threads_do_not_mix_lines(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with journal.Writer(path) as writer:

        def write(name: str) -> None:
            for i in range(100):
                writer.row("sample", t=1, name=name, i=i, more="x" * 500)

        threads = [threading.Thread(target=write, args=(str(i),)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    rows = list(journal.read(path))
    assert len(rows) == 400
    assert [row["i"] for row in rows if row["name"] == "2"] == list(range(100))


def test_a_follower_sees_rows_once_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    follower = journal.Follower(path)
    assert follower.new() == []
    line = '{"t": 1, "kind": "mark", "detail": "ü"}\n'.encode()
    cut = line.index(b"\xc3") + 1
    with open(path, "ab", buffering=0) as file:
        file.write(line[:cut])
        assert follower.new() == []
        file.write(line[cut:] + b'{"t": 2, ')
        assert [row["t"] for row in follower.new()] == [1]
        file.write(b'"kind": "end"}\n')
        assert [row["t"] for row in follower.new()] == [2]
    assert follower.new() == []


def test_tail_ends_with_the_end_row(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    rows = journal.tail(path, poll_s=0.001)

    def write() -> None:
        with journal.Writer(path) as writer:
            for i in range(5):
                writer.row("sample", t=i + 1)
            writer.row("end", t=9, status="complete", reason="")

    thread = threading.Thread(target=write)
    thread.start()
    seen = [row["t"] for row in rows]
    thread.join()
    assert seen == [1, 2, 3, 4, 5, 9]


def test_tail_ends_when_the_writer_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'{"t": 1, "kind": "head"}\n{"t": 2, "ki')
    alive = iter([True, True, False])
    assert [row["t"] for row in journal.tail(path, alive=lambda: next(alive), poll_s=0.001)] == [1]


def test_a_journal_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        journal.Writer(tmp_path / "gone" / "journal.jsonl")


def test_a_journal_that_was_deleted_takes_no_more_rows(tmp_path: Path) -> None:
    with journal.Writer(tmp_path / "journal.jsonl") as writer:
        writer.row("mark", name="a")
        (tmp_path / "journal.jsonl").unlink()
        with pytest.raises(FileNotFoundError):
            writer.row("mark", name="b")


def test_reading_skips_what_is_no_row(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'[1, 2]\n\n"x"\n{"t": 1, "kind": "odd", "new": {"a": 1}}\n')
    assert list(journal.read(path)) == [{"t": 1, "kind": "odd", "new": {"a": 1}}]


GOOD: dict[str, Any] = {"kind": "mark", "t": 1, "arm": None, "name": "a", "detail": "b"}


@pytest.mark.parametrize(
    ("row", "key"),
    [
        ({"kind": "head", "arms": 3}, "arms"),
        ({"kind": "head", "arms": [{"name": ["A"]}]}, "name"),
        ({"kind": "head", "workload": "short"}, "workload"),
        ({"kind": "request", "completion_tokens": "12"}, "completion_tokens"),
        ({"kind": "request", "event_s": [0.1, "x"]}, "event_s"),
        ({"kind": "request", "histogram": {"0": 1}}, "histogram"),
        ({"kind": "metrics", "counters": {"a_total": "1"}}, "counters"),
        ({"kind": "gpu", "gpus": [{"uuid": "u", "power_w": "400"}]}, "power_w"),
        ({"kind": "phase", "detail": []}, "detail"),
        ({"kind": "end", "status": 1}, "status"),
        ({"kind": "sample", "t": "now"}, "t"),
        ({"output_ids": "1 2 3"}, "output_ids"),
    ],
)
def test_a_row_of_wrong_types_is_told_by_file_line_and_key(tmp_path: Path, row: dict[str, Any], key: str) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text("\n".join(json.dumps(one) for one in (GOOD, row, GOOD)) + "\n")
    with pytest.raises(journal.JournalFault) as raised:
        list(journal.read(path))
    said = str(raised.value)
    assert said.startswith(f"{path}, line 2: ")
    assert key in said
    assert "\n" not in said
    assert raised.value.exit_code == 2
    assert journal.Follower(path).new() == [GOOD, GOOD], "what is followed goes on without it"


def test_what_is_missing_null_or_new_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    rows = [
        {"kind": "request", "rid": "r", "first_s": None, "new": []},
        {
            "kind": "gpu",
            "gpus": [
                {"uuid": "u", "power_w": None, "temperature_c": 60.0, "throttle": ["thermal"], "processes": [[1, None]]}
            ],
        },
        {"kind": "metrics", "counters": {"a_total": 3, "b": None}},
        {"kind": "client", "cpu_s": 1, "concurrency": None},
        {"kind": ["odd"]},
    ]
    path.write_text("\n".join(json.dumps(one) for one in rows))
    assert len(list(journal.read(path))) == len(rows)
