from __future__ import annotations

import json
import lzma
import multiprocessing
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.cli import run_command_line
from spectui.core.ngram import NgramSettings
from spectui.predict.chain import chain_lengths, conditional_rates
from spectui.predict.fast_replay import SharedReplay, can_replay, family
from spectui.predict.plain_replay import plain_histograms
from spectui.predict.replay import Pair, Source, known_share, load, repeated_share, replay
from spectui.predict.replay_grid import run_grid
from spectui.predict.replay_source import ReplaySourceError
from spectui.predict.text_index import TextIndex

RECORDING = Path(__file__).parents[1] / "data" / "ngram" / "sglang-0.5.15-ngram-8.json"
RECORDED: dict[str, list[dict[str, Any]]] = json.loads(RECORDING.read_text())
SETTINGS: list[dict[str, Any]] = json.loads(
    lzma.decompress(RECORDING.with_name("sglang-0.5.15-settings.json.xz").read_bytes())
)
WORKLOADS = {name: [Pair(row["prompt_ids"], row["output_ids"]) for row in rows] for name, rows in RECORDED.items()}


@st.composite
def repeating(draw: st.DrawFn, low: int, high: int) -> list[int]:
    """Token ids with passages that come again, so that long matches and loops occur."""
    said: list[int] = []
    size = draw(st.integers(low, high))
    while len(said) < size:
        if said and draw(st.booleans()):
            start = draw(st.integers(0, len(said) - 1))
            said += said[start : start + draw(st.integers(1, 12))]
        else:
            said.append(draw(st.integers(0, 3)))
    return said[:size]


requests = st.lists(st.builds(Pair, repeating(1, 25), repeating(0, 60), st.booleans()), min_size=1, max_size=4)


@settings(max_examples=100, deadline=None)
@given(
    requests,
    st.sampled_from([2, 3, 4, 8, 18]),
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9)), min_size=1, max_size=3),
    st.lists(st.sampled_from([1, 2, 4, 8, 16]), min_size=1, max_size=3),
    st.sampled_from(["0.5.10", "0.5.12", "0.5.15"]),
    st.booleans(),
)
def test_the_fast_replay_is_the_plain_one(
    pairs: list[Pair],
    depth: int,
    breadths: list[tuple[int, int]],
    widths: list[int],
    version: str,
    overlap: bool,
) -> None:
    grid = [
        NgramSettings(width, depth, low, low + more, version=version, overlap=overlap)
        for low, more in breadths
        for width in widths
    ]
    index = TextIndex(pairs, depth + len(pairs))
    found = SharedReplay(index, family(grid[0]), grid).histograms()
    assert found == [plain_histograms(pairs, chosen) for chosen in grid]


@pytest.mark.parametrize("width", [2, 4, 16])
@pytest.mark.parametrize(("depth", "high"), [(18, 10), (6, 1)])
def test_the_fast_replay_is_the_plain_one_on_a_recording(width: int, depth: int, high: int) -> None:
    chosen = NgramSettings(width, depth, max_bfs_breadth=high)
    assert can_replay(chosen, 10_000)
    [found] = run_grid(WORKLOADS, [chosen], 1)
    assert found == {name: plain_histograms(pairs, chosen) for name, pairs in WORKLOADS.items()}


def test_a_replay_gives_the_servers_own_steps() -> None:
    [found] = replay(WORKLOADS, [NgramSettings(num_draft_tokens=8)])
    assert found.exact
    assert found.why_not is None
    said = found.as_json()
    for name, rows in RECORDED.items():
        assert [r["verify_steps"] for r in said["workloads"][name]] == [r["spec_verify_ct"] for r in rows]
    steps = sum(row["spec_verify_ct"] for rows in RECORDED.values() for row in rows)
    tokens = sum(len(row["output_ids"]) - 1 for rows in RECORDED.values() for row in rows)
    assert said["verify_steps"] == steps == sum(said["histogram"])
    assert said["accept_length"] == pytest.approx(tokens / steps)
    assert {"num_draft_tokens", "max_trie_depth", "min_bfs_breadth", "max_bfs_breadth", "match_type"} < said.keys()
    assert json.loads(json.dumps(said)) == said


def test_two_processes_give_what_one_gives_in_the_order_of_the_grid() -> None:
    grid = [NgramSettings(n, d, match_type=m) for m in ("BFS", "PROB") for d in (18, 4) for n in (4, 8)]
    grid.append(grid[0])
    pairs = {"short": WORKLOADS["short"][:2]}
    assert run_grid(pairs, grid, 2) == run_grid(pairs, grid, 1)


def test_a_stop_token_that_was_a_draft_leaves_what_comes_after_it_in_the_store() -> None:
    answer = [5, 6, 7, 2]
    pairs = [Pair([1, 2, 9], answer, stopped) for stopped in (True, True, True) for _ in range(2)]
    plain = [Pair(p.prompt_ids, p.output_ids) for p in pairs]
    narrow = NgramSettings(3, 4)
    with_it, without = (plain_histograms(rows, narrow) for rows in (pairs, plain))
    assert [sum(h) for h in with_it] == [sum(h) for h in without]
    # What is accepted beyond the answer is never counted.
    assert all(sum((k + 1) * n for k, n in enumerate(h)) <= len(answer) for h in with_it)
    # After the stop token the store knows one token more, which takes a slot of the tree.
    other = [Pair([1, 2, 9], [5, 6, 7, 8, 5, 6, 7, 2], stopped) for stopped in (True, False)]
    fed = NgramSettings(4, 6)
    said = [plain_histograms([*pairs, Pair([3], [7, 8, 7, 2, 4, 7, 8], False), one], fed)[-1] for one in other]
    assert sum(said[0]) == sum(said[1])


def test_whether_something_followed_a_stop_token_depends_on_the_setting() -> None:
    pairs = [Pair([3], [3, 3, 0, 3, 3], True), Pair([4], [3, 3], True)]
    grid = [NgramSettings(2, max_bfs_breadth=5), NgramSettings(4, max_bfs_breadth=9)]
    found = SharedReplay(TextIndex(pairs, 18), family(grid[0]), grid).histograms()
    assert found == [plain_histograms(pairs, chosen) for chosen in grid]


def test_stop_tokens_of_a_file_are_found_by_the_prompts_that_hold_them(tmp_path: Path) -> None:
    rows = [([1, 2, 9], [5, 6, 2]), ([1, 2, 8], [6, 5, 7]), ([1, 2, 8], [6, 9, 6])]
    path = tmp_path / "ids.json"
    path.write_text(json.dumps({"w": [{"prompt_ids": p, "output_ids": o} for p, o in rows]}))
    assert [pair.stopped for pair in load(path).workloads["w"]] == [True, False, False]


@pytest.mark.parametrize(("processes", "enough"), [(1, 6), (2, 1)])
def test_ended_early_it_keeps_the_first_requests(processes: int, enough: int) -> None:
    pairs = WORKLOADS["short"]
    # Four depths are four tasks: two processes cannot have sent all of them by the second question.
    grid = [NgramSettings(n, d) for d in (18, 12, 10, 6) for n in (4, 8)]
    whole = replay({"short": pairs}, grid, processes=1)
    seen: list[float] = []
    asked = 0

    def cancelled() -> bool:
        nonlocal asked
        asked += 1
        return asked > enough

    part = replay(
        {"short": pairs}, grid, processes=processes, watch=lambda p: seen.append(p.share), cancelled=cancelled
    )
    assert sum(one.not_replayed for one in part) > 0
    assert seen == sorted(seen)
    for one, all_of_it in zip(part, whole, strict=True):
        done = one.workloads["short"]
        assert len(done) + one.not_replayed == len(pairs)
        assert list(done) == list(all_of_it.workloads["short"])[: len(done)]


def test_progress_ends_with_all_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spectui.predict.replay_grid.EVERY_S", -1.0)
    seen: list[Any] = []
    replay(
        {"short": WORKLOADS["short"][:2]}, [NgramSettings(4), NgramSettings(8, match_type="PROB")], watch=seen.append
    )
    assert (seen[-1].settings_done, seen[-1].settings) == (2, 2)
    assert seen[-1].share == pytest.approx(1.0)
    assert seen[0].settings_done == 0


def test_a_process_that_is_killed_is_one_clear_line() -> None:
    from spectui.predict import replay_pool

    def kill(*_: object) -> bool:
        for child in multiprocessing.active_children():
            child.kill()
        return False

    with pytest.raises(replay_pool.ReplayDied, match="exit code -9"):
        run_grid({"short": WORKLOADS["short"]}, [NgramSettings(4), NgramSettings(8, 6)], 2, cancelled=kill)
    assert not multiprocessing.active_children()


def test_ids_beyond_the_models_vocabulary_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ids.json"
    path.write_text(json.dumps({"w": [{"prompt_ids": [1], "output_ids": [70, 80]}]}))
    (tmp_path / "config.json").write_text(json.dumps({"text_config": {"vocab_size": 64}}))
    assert run_command_line(["replay", str(path), "--model", str(tmp_path)]) == 2
    assert "80, but the model's vocabulary has 64" in capsys.readouterr().err
    assert run_command_line(["replay", str(path), "--model", str(tmp_path / "none")]) == 2
    assert "no config.json" in capsys.readouterr().err
    assert run_command_line(["replay", str(path)]) == 0


def test_interrupted_the_command_shows_what_was_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ids.json"
    rows = [{"prompt_ids": p.prompt_ids, "output_ids": p.output_ids} for p in WORKLOADS["short"]]
    path.write_text(json.dumps({"short": rows}))
    monkeypatch.setattr("spectui.cli.replay._Watch.cancelled", lambda watch: True)
    assert run_command_line(["replay", str(path), "--draft-tokens", "4,8", "--processes", "1"]) == 130
    told = capsys.readouterr()
    assert f"first 1 of {len(rows)} requests" in told.out
    assert "interrupted" in told.err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


MASKS = """
import multiprocessing, pathlib
from spectui.core.ngram import NgramSettings
from spectui.predict.replay import Pair
from spectui.predict.replay_grid import run_grid

def look():
    for child in multiprocessing.active_children():
        status = pathlib.Path(f"/proc/{child.pid}/status").read_text()
        print(int(status.split("SigBlk:")[1].split()[0], 16) & 2)
    return True

if __name__ == "__main__":
    pairs = {"w": [Pair([1], [2, 3] * 50)]}
    run_grid(pairs, [NgramSettings(4), NgramSettings(8, 6)], 2, cancelled=look)
"""


def test_ctrl_c_reaches_no_process_of_a_replay_not_even_the_first_one(tmp_path: Path) -> None:
    """In a program of its own: what lets the signal through is begun by the first process that is ever started."""
    (tmp_path / "masks.py").write_text(MASKS)
    command = [sys.executable, str(tmp_path / "masks.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["2", "2"]


def test_a_store_that_would_evict_is_replayed_plainly() -> None:
    small = NgramSettings(8, capacity=400)
    assert not can_replay(small, 512)
    [found] = replay({"edit": WORKLOADS["edit"]}, [small])
    assert [list(r.histogram) for r in found.workloads["edit"]] == plain_histograms(WORKLOADS["edit"], small)
    [large] = replay({"edit": WORKLOADS["edit"]}, [NgramSettings(8)])
    assert found.verify_steps > large.verify_steps


def test_warm_and_primed_take_fewer_steps_than_cold() -> None:
    chosen = [NgramSettings(8)]
    source = Source({"short": WORKLOADS["short"][1:2]}, primers={"short": WORKLOADS["short"]})
    cold, warm, primed = (replay(source, chosen, mode=mode)[0] for mode in ("cold", "warm", "primed"))
    assert warm.verify_steps < cold.verify_steps
    assert primed.verify_steps < cold.verify_steps
    assert replay(source, chosen)[0] == primed
    assert len(primed.workloads["short"]) == 1
    with pytest.raises(ValueError, match="nothing was recorded to prime"):
        replay(WORKLOADS, chosen, mode="primed")
    with pytest.raises(ValueError, match="mode must be one of cold, warm, primed"):
        replay(WORKLOADS, chosen, mode="hot")


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"version": "0.5.5"}, "0.5.5"),
        ({"version": "0.5.12"}, "0.5.12, which inserts without delay"),
        ({"external_sam_budget": 3}, "external corpora"),
    ],
)
def test_what_no_recording_verified_is_an_estimate(knobs: dict[str, Any], said: str) -> None:
    [found] = replay({"w": [Pair([1], [1, 2])]}, [NgramSettings(4, **knobs)])
    assert not found.exact
    assert said in (found.why_not or "")


@pytest.mark.parametrize(
    "recorded", SETTINGS, ids=lambda one: "-".join(str(value) for value in one["settings"].values())
)
def test_other_settings_of_a_real_server_replay_to_the_step(recorded: dict[str, Any]) -> None:
    """SGLang 0.5.15.post1 on an H200: draft tokens 4 and 16, match type PROB, breadth 4; cold, one at a time."""
    rows = recorded["requests"]
    pairs = {"w": [Pair(row["prompt_ids"], row["output_ids"], row["stopped"]) for row in rows]}
    [found] = replay(pairs, [NgramSettings(**recorded["settings"])])
    assert found.exact
    for told, row in zip(found.workloads["w"], rows, strict=True):
        assert told.verify_steps == row["verify_steps"]
        server = Counter({length: steps for length, steps in enumerate(row["histogram"]) if steps})
        ours = Counter({length: steps for length, steps in enumerate(told.histogram) if steps})
        # A last step that a limit or a stop token cut is counted by the server with all that it had accepted.
        assert sum((ours - server).values()) <= 1
        assert sum((server - ours).elements()) >= sum((ours - server).elements())


def test_a_request_without_a_verify_step() -> None:
    [found] = replay({"w": [Pair([1], [2]), Pair([1], [])]}, [NgramSettings(4)])
    assert found.verify_steps == 0
    assert found.accept_length is None
    assert known_share(found.workloads["w"]) is None
    assert found.as_json()["workloads"]["w"][0]["accept_length"] is None


def test_known_and_repeated_shares() -> None:
    [cold] = replay({"short": WORKLOADS["short"][:1]}, [NgramSettings(8)])
    [warm] = replay({"short": WORKLOADS["short"][:1]}, [NgramSettings(8)], mode="warm")
    first, again = (known_share(found.workloads["short"]) or 0 for found in (cold, warm))
    assert first < again
    answer = list(range(20))
    assert repeated_share([Pair([1], answer), Pair([1], answer), Pair([1], [99, *answer[:7]])]) == [0, 1, 0]
    assert repeated_share([Pair([1], [90, 91, *answer[4:14]])], fed=[Pair([2], answer)]) == [10 / 12]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "the file is empty"),
        ("  \n", "the file is empty"),
        ("{", "not JSON (line 1"),
        ("[1, 2]", "a list at the top"),
        ("{}", "no workload in it"),
        ('{"w": 3}', '"w" is a number, not a list'),
        ('{"w": []}', '"w" has no requests'),
        ('{"w": [[1]]}', '"w"[0] is a list, not an object'),
        ('{"w": [{"output_ids": [1]}]}', '"w"[0] has no prompt_ids'),
        ('{"w": [{"prompt_ids": [1]}]}', '"w"[0] has no output_ids'),
        ('{"w": [{"prompt_ids": [1], "output_ids": "ab"}]}', '"w"[0].output_ids is a text, not a list'),
        ('{"w": [{"prompt_ids": [1], "output_ids": []}]}', '"w"[0].output_ids is empty'),
        ('{"w": [{"prompt_ids": [1], "output_ids": [1.5]}]}', '"w"[0].output_ids[0] is 1.5, not a whole number'),
        ('{"w": [{"prompt_ids": [true], "output_ids": [1]}]}', '"w"[0].prompt_ids[0] is true, not a whole number'),
        ('{"w": [{"prompt_ids": [1], "output_ids": [4, -2]}]}', '"w"[0].output_ids[1] is -2; token ids are 0 to'),
        ('{"w": [{"prompt_ids": [1], "output_ids": [99999999999]}]}', "token ids are 0 to 2147483647"),
        ("[" * 200_000, "nested too deeply"),
    ],
)
def test_a_bad_file_is_one_clear_line(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "ids.json"
    file.write_text(content)
    with pytest.raises(ReplaySourceError) as error:
        load(file)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(str(file))


def test_files_that_are_not_there_or_not_text_and_ids_of_another_vocabulary(tmp_path: Path) -> None:
    with pytest.raises(ReplaySourceError, match="no such file or folder"):
        load(tmp_path / "none.json")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ReplaySourceError, match="not text"):
        load(tmp_path / "bytes")
    (tmp_path / "ids.json").write_text('{"w": [{"prompt_ids": [1], "output_ids": [151643]}]}')
    assert load(tmp_path / "ids.json", vocab_size=151_936).tokens == 1
    with pytest.raises(ReplaySourceError, match="token id 151643, but the model's vocabulary has 49152"):
        load(tmp_path / "ids.json", vocab_size=49_152)


def _run(folder: Path, journal: list[dict[str, Any]], answers: list[dict[str, Any]] | None) -> Path:
    (folder / "journal.jsonl").write_text("".join(json.dumps(row) + "\n" for row in journal))
    if answers is not None:
        (folder / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in answers) + '{"torn')
    return folder


def _head(**more: Any) -> dict[str, Any]:
    in_force = {"num_draft_tokens": 8, "max_trie_depth": 18}
    arm = {"name": "A", "algorithm": "NGRAM", "version": "0.5.15", "settings_in_force": in_force}
    return {"kind": "head", "arms": [arm], "workload": {"name": "json"}, "temperature": 0, **more}


def _flush(pass_name: str, concurrency: int = 1) -> dict[str, Any]:
    where = {"arm": "A", "pass_name": pass_name, "concurrency": concurrency}
    return {"kind": "phase", "phase": "flush", "state": "end", "detail": {"flushed": True}, **where}


def _answer(pass_name: str, phase: str, index: int, concurrency: int = 1) -> dict[str, Any]:
    where = {"arm": "A", "pass_name": pass_name, "phase": phase, "concurrency": concurrency, "index": index}
    return {**where, "prompt_ids": [1, 2], "output_ids": [3, 4, index + 5]}


def test_a_run_gives_its_passes_with_what_was_fed_before(tmp_path: Path) -> None:
    answers = [_answer("cold", "measure", 0), _answer("warm", "feed", 0), _answer("warm", "measure", 1)]
    source = load(_run(tmp_path, [_head(), _flush("cold"), _flush("warm")], answers))
    assert list(source.workloads) == ["json cold", "json warm"]
    assert [len(source.primers[name]) for name in source.workloads] == [0, 1]
    same, other = replay(source, [NgramSettings(8), NgramSettings(4)])
    assert same.nearly_exact
    assert not same.exact
    assert "beyond their end" in str(same.why_not)
    assert other.nearly_exact is False
    assert other.why_not == "the text was written with num_draft_tokens 8; under this setting it may differ"


def _begin(pass_name: str, phase: str) -> dict[str, Any]:
    where = {"arm": "A", "pass_name": pass_name, "concurrency": 1}
    return {"kind": "phase", "phase": phase, "state": "begin", "detail": {}, **where}


def test_what_was_answered_before_the_flush_fed_nothing(tmp_path: Path) -> None:
    journal = [_head(), _begin("cold", "warmup"), _flush("cold"), _begin("cold", "measure")]
    answers = [_answer("cold", "warmup", 0), _answer("cold", "measure", 0)]
    found = load(_run(tmp_path, journal, answers))
    assert found.primers["json cold"] == []
    assert replay(found, [NgramSettings(8)])[0].exact
    kept = load(_run(tmp_path, [_head(), _begin("cold", "warmup"), _begin("cold", "measure")], answers))
    assert len(kept.primers["json cold"]) == 1


def _said(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> str:
    assert run_command_line(["replay", *argv, "--processes", "1"]) == code
    told = capsys.readouterr()
    return told.err if code else told.out


def test_the_command_never_takes_passes_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = [_answer("cold", "measure", 0), _answer("warm", "feed", 0), _answer("warm", "measure", 0)]
    run = str(_run(tmp_path, [_head(), _flush("cold"), _flush("warm")], answers))
    told = _said(capsys, run, "--draft-tokens", "8").splitlines()
    assert [line.split()[3:5] for line in told[1:3]] == [["json", "cold"], ["json", "warm"]]
    assert [line.split()[-1] for line in told[1:3]] == ["yes", "nearly"]
    assert told[3].startswith("an estimate: ")
    done = json.loads(_said(capsys, run, "--draft-tokens", "8", "--json"))["settings"]
    assert [list(one["workloads"]) for one in done] == [["json cold"], ["json warm"]]
    assert [one["verify_steps"] for one in done] == [2, 1]
    warm = json.loads(_said(capsys, run, "--mode", "warm", "--json"))["settings"]
    assert [(list(one["workloads"]), one["verify_steps"]) for one in warm] == [(["json warm"], 1)]
    cold = str(_run(tmp_path, [_head(), _flush("cold")], answers[:1]))
    assert "replay it with --mode cold" in _said(capsys, cold, "--mode", "warm", code=2)


def test_other_loads_are_replayed_and_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = [5, 6, 7, 8] * 8
    rows = [{"prompt_ids": [1, 2, number], "output_ids": text[number:]} for number in range(6)]
    (tmp_path / "ids.json").write_text(json.dumps({"w": rows}))
    file = str(tmp_path / "ids.json")
    told = _said(capsys, file, "--concurrency", "1,3").splitlines()
    assert "breadth  at a time" in told[0]
    assert [line.split()[3] for line in told[1:3]] == ["1", "3"]
    assert [line.split()[-1] for line in told[1:3]] == ["yes", "no"]
    done = json.loads(_said(capsys, file, "--concurrency", "1,3", "--json"))["settings"]
    assert [(one["concurrency"], one["exact"]) for one in done] == [(1, True), (3, False)]
    assert done[0]["verify_steps"] < done[1]["verify_steps"], "those who join cost the others steps"
    assert "3 requests at a time: when each joined" in done[1]["why_not"]
    run = str(_run(tmp_path, [_head(), _flush("cold")], [_answer("cold", "measure", i) for i in range(2)]))
    [other] = json.loads(_said(capsys, run, "--concurrency", "2", "--json"))["settings"]
    assert "the text was written with 1 at a time; with 2 it may differ" in other["why_not"]
    assert "at least 1" in _said(capsys, file, "--concurrency", "0", code=2)


def test_the_command_says_of_which_workload_and_of_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [{"prompt_ids": [1, 2], "output_ids": [3, 4, 5]}]
    (tmp_path / "ids.json").write_text(json.dumps({"a": pairs, "b": pairs}))
    told = _said(capsys, str(tmp_path / "ids.json")).splitlines()
    assert [line.split()[3:5] for line in told[1:]] == [["a", "2"], ["b", "2"], ["all", "4"]]


@pytest.mark.parametrize(
    ("journal", "answers", "said"),
    [
        ([_head(), _flush("cold", 4)], [_answer("cold", "measure", 0, 4)], "4 requests at a time"),
        ([_head(temperature=0.7), _flush("cold")], [_answer("cold", "measure", 0)], "sampled text"),
        ([_head()], [_answer("cold", "measure", 0)], "no flush before"),
        (
            [_head(arms=[{"name": "A", "algorithm": "none"}]), _flush("cold")],
            [_answer("cold", "measure", 0)],
            "written with none",
        ),
        (
            [_head(), _flush("cold"), {"kind": "request", "arm": "A", "pass_name": "cold", "status": "failed"}],
            [_answer("cold", "measure", 0)],
            "some requests left no ids",
        ),
    ],
)
def test_a_run_says_why_its_replay_is_an_estimate(
    tmp_path: Path, journal: list[dict[str, Any]], answers: list[dict[str, Any]], said: str
) -> None:
    [found] = replay(load(_run(tmp_path, journal, answers)), [NgramSettings(8)])
    assert said in (found.why_not or "")


@pytest.mark.parametrize(
    ("journal", "answers", "said"),
    [
        ([_head()], None, "the run kept no answers"),
        ([_head()], [], "no token ids in it"),
        ([_head()], [{"arm": "A", "phase": "measure", "text": "hello"}], "no token ids in it"),
        ([_head()], [{**_answer("cold", "measure", 0), "output_ids": [-1]}], "json cold[0].output_ids[0] is -1"),
    ],
)
def test_a_run_without_ids_is_one_clear_line(
    tmp_path: Path, journal: list[dict[str, Any]], answers: list[dict[str, Any]] | None, said: str
) -> None:
    with pytest.raises(ReplaySourceError) as error:
        load(_run(tmp_path, journal, answers))
    assert said in str(error.value)


def test_a_folder_that_is_no_run_and_a_damaged_one(tmp_path: Path) -> None:
    with pytest.raises(ReplaySourceError, match=r"no journal\.jsonl"):
        load(tmp_path)
    _run(tmp_path, [_head()], [])
    (tmp_path / "journal.jsonl").write_text("{broken\n{}\n")
    with pytest.raises(ReplaySourceError, match="line 1 is not JSON"):
        load(tmp_path)


def test_shorter_chains_from_a_longer_ones_histogram() -> None:
    one, two, three = chain_lengths([10, 20, 30, 40])
    assert (one.num_steps, one.num_draft_tokens) == (1, 2)
    assert [e.accept_length for e in (one, two, three)] == pytest.approx([1.9, 2.6, 3.0])
    assert [e.accept_rate for e in (one, two, three)] == pytest.approx([0.9, 0.8, 2 / 3])
    assert chain_lengths([5, 5], num_steps=3)[2].accept_length == pytest.approx(1.5)
    assert conditional_rates([10, 20, 30, 40]) == pytest.approx([0.9, 70 / 90, 40 / 70])
    assert conditional_rates([4, 0, 0]) == [0.0, None]


@pytest.mark.parametrize(
    ("histogram", "steps", "said"),
    [
        ([], None, "histogram is empty"),
        ([0, 0], None, "histogram is empty"),
        ([3, -1], None, "no negative counts"),
        ([3], None, "at least 1 step"),
        ([3, 0, 1], 1, "more than 1 accepted drafts"),
    ],
)
def test_histograms_of_no_chain(histogram: list[int], steps: int | None, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        chain_lengths(histogram, steps)


@pytest.mark.parametrize(
    ("knob", "written"), [("ngram.max_bfs_breadth", 4), ("ngram.match_type", "PROB"), ("capacity", 9)]
)
def test_text_of_another_setting_is_an_estimate_by_whichever_name_the_server_gave_it(
    knob: str, written: object
) -> None:
    source = Source({"w": [Pair([1], [1, 2])]}, written_by={"w": {"algorithm": "NGRAM", knob: written}})
    [found] = replay(source, [NgramSettings(4)])
    assert f"the text was written with {knob.removeprefix('ngram.')} {written}" in (found.why_not or "")
