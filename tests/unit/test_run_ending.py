"""Runs without a last row: what ended them is named, and what they measured is kept."""

from __future__ import annotations

import errno
import shutil
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
from core_records import head, record, row_of

from spectui.core.result import RunResult, fold
from spectui.runner import __main__ as runner
from spectui.runner.failure import EXIT_DISK_FULL, EXIT_FOLDER_GONE, EXIT_UNWRITABLE, make_room
from spectui.session.run_ending import with_reason
from spectui.store.journal import Writer


def torn(folder: Path, *, end: bool = False) -> RunResult:
    rows: list[dict[str, Any]] = [head(), row_of(record())]
    if end:
        rows.append({"kind": "end", "t": 2.0, "status": "complete", "reason": "", "exit_code": 0})
    (folder / "journal.jsonl").write_text("{}")
    return fold(rows)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (-9, "killed by signal 9 (SIGKILL)"),
        (-15, "killed by signal 15 (SIGTERM)"),
        (-64, "killed by signal 64"),
        (EXIT_DISK_FULL, "is full"),
        (EXIT_FOLDER_GONE, "was deleted while the run went on"),
        (EXIT_UNWRITABLE, "cannot be written"),
        (1, "exit code 1"),
        (None, "wrote no last row"),
    ],
)
def test_a_run_without_a_last_row_says_what_ended_it(tmp_path: Path, code: int | None, words: str) -> None:
    result = with_reason(torn(tmp_path), tmp_path, code)
    assert result.status == "failed"
    assert words in result.reason
    assert result.last is not None
    assert result.last.requests == 1


def test_a_deleted_folder_is_named_however_the_run_ended(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    result = torn(folder, end=True)
    assert with_reason(result, folder, 0) is result
    shutil.rmtree(folder)
    ended = with_reason(result, folder, 0)
    assert ended.status == "failed"
    assert str(folder) in ended.reason


def test_a_full_disk_is_seen_where_the_runner_is_not_our_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(1, 1, 0))
    assert "is full" in with_reason(torn(tmp_path), tmp_path, None).reason


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.ENOSPC, EXIT_DISK_FULL), (errno.ENOENT, EXIT_FOLDER_GONE), (errno.EROFS, EXIT_UNWRITABLE)],
)
def test_a_runner_that_cannot_write_ends_with_a_code_that_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    def refuse(self: Writer, row: object) -> None:
        raise OSError(number, "not written")

    def full(text: str) -> int:
        raise OSError(number, "its log is on the same disk")

    monkeypatch.setattr(Writer, "write", refuse)
    monkeypatch.setattr("sys.stderr.write", full)
    monkeypatch.setattr(runner.Signals, "install", lambda self: None)
    assert runner.main([str(tmp_path / "spec.json")]) == code


def test_the_last_row_of_a_run_says_what_to_do_about_a_full_disk() -> None:
    assert "runs prune" in make_room(OSError(errno.ENOSPC, "No space left on device"))
    assert make_room(OSError(errno.EROFS, "Read-only file system")) == ""
