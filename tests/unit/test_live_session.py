"""Staging, predicting, following and judging in the live session, without a server."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from core_records import arm_head, fed, flush, generated, head, row_of

from spectui.core.compare import compare
from spectui.core.fairness import side_of
from spectui.core.passes import PassResult
from spectui.core.profile import Profile, ServerPart, SpeculativePart
from spectui.core.result import fold
from spectui.core.rows import Row
from spectui.core.stats import Verdict
from spectui.engines.sglang.info import read_info
from spectui.hosts.watch import ServerState
from spectui.predict import tracking
from spectui.session import SessionError, table
from spectui.session.arms import Target
from spectui.session.changing import write_command
from spectui.session.following import Following
from spectui.session.live import Live
from spectui.session.live_arm import LiveArm
from spectui.session.measuring import Measuring, feeding
from spectui.session.predicting import Predictor, chain_prediction, made_of, note_miss, read_replay
from spectui.session.running import RunHandle, RunOptions
from spectui.session.staging import stage, stage_algorithm, stage_step
from spectui.session.view import Prediction


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path / "home"))


def profile(algorithm: str = "NGRAM", **knobs: object) -> Profile:
    server = ServerPart(model_path="m/model", args={"max_running_requests": 48})
    return Profile("mine", None, server, SpeculativePart(algorithm, knobs))


def running_arm(wanted: Profile, letter: str = "A") -> LiveArm:
    url = "http://127.0.0.1:30000"
    return LiveArm(letter, target=Target("mine", url=url), url=url, profile=wanted)


def ready_arm(algorithm: str) -> LiveArm:
    arm = running_arm(profile(algorithm))
    arm.info = read_info({"version": "0.5.15", "speculative_algorithm": algorithm, "internal_states": []})
    return arm


def rows() -> list[Row]:
    records = [
        *generated(8, 81, [3.0] * 8, arm="A", histogram=(10, 10, 7)),
        *generated(8, 81, [2.0] * 8, arm="B"),
    ]
    found = [head(arm_head("A"), arm_head("B", "EAGLE3"), requests=8), flush(), fed(20, 5000, True)]
    found += [row_of(r) for r in records]
    return [*found, {"t": 200.0, "kind": "end", "status": "complete", "reason": ""}]


def result_pass(letter: str = "A") -> PassResult:
    return fold(rows()).passes[(letter, 1, "warm")]


# -- staging


def test_a_step_of_the_knob_is_staged_with_words_and_needs_a_relaunch() -> None:
    arm = running_arm(profile(num_draft_tokens=8))
    staged = stage_step(arm, 1)
    assert staged is not None
    assert staged.words == "draft tokens 8 → 12"
    assert not staged.hot
    assert not staged.refused
    arm.staged = staged
    back = stage_step(arm, -1)
    assert back is None  # where it began


def test_the_end_of_the_steps_is_said() -> None:
    arm = running_arm(profile(num_draft_tokens=64))
    with pytest.raises(SessionError, match="draft tokens is at its largest step: e sets any value"):
        stage_step(arm, 1)


def test_no_speculation_has_no_knob() -> None:
    with pytest.raises(SessionError, match="n chooses an algorithm"):
        stage_step(running_arm(profile("none")), 1)


def test_another_algorithm_takes_the_knobs_that_the_other_arm_has() -> None:
    arm = running_arm(profile(num_draft_tokens=8))
    other = running_arm(profile("EAGLE3", num_steps=5, eagle_topk=1, draft_model_path="d/draft"), "B")
    staged = stage_algorithm(arm, "EAGLE3", other)
    assert staged is not None
    assert staged.profile.speculative.knobs["num_steps"] == 5
    assert staged.profile.speculative.knobs["draft_model_path"] == "d/draft"
    assert "algorithm NGRAM → EAGLE3" in staged.words


def test_what_a_server_would_refuse_is_refused_before_it_costs_anything() -> None:
    arm = running_arm(profile(num_draft_tokens=8))
    wanted = profile(**{"num_draft_tokens": 8, "ngram.min_bfs_breadth": 5, "ngram.max_bfs_breadth": 2})
    arm.staged = stage(arm, wanted)
    assert arm.staged is not None
    assert "is above" in arm.staged.refused
    live = Live(gpus=False)
    live.arms["A"] = arm
    with pytest.raises(SessionError, match="the server would refuse this"):
        live.apply()


def test_a_server_that_spectui_did_not_start_is_not_relaunched() -> None:
    live = Live(gpus=False)
    live.arms["A"] = running_arm(profile(num_draft_tokens=8))
    live.stage_step(1)
    with pytest.raises(SessionError, match="was not started by spectui, so it is not relaunched unasked: y writes"):
        live.apply()


def test_a_found_server_keeps_its_own_words_but_for_what_was_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []

    class Proposed:
        profile = profile(num_draft_tokens=8)

    def propose(_url: str, *, knobs: dict[str, object] | None = None, **_more: object) -> Proposed:
        asked.append(dict(knobs or {}))
        return Proposed()

    monkeypatch.setattr("spectui.session.adopting.propose", propose)
    live = Live(gpus=False)
    live.arms["A"] = running_arm(profile(**{"num_draft_tokens": 8, "ngram.max_trie_depth": 18}))
    assert not live.must_adopt
    live.stage_step(1)
    assert live.must_adopt
    _, original = live.propose()
    assert asked == [{}, {"num_draft_tokens": 12}]
    assert original.speculative.knobs == {"num_draft_tokens": 8}


def test_dropping_and_staging_what_runs() -> None:
    live = Live(gpus=False)
    live.arms["A"] = running_arm(profile(num_draft_tokens=8))
    live.stage_step(1)
    assert live.focused.staged is not None
    live.stage_knobs({"num_draft_tokens": 8})
    assert live.focused.staged is None
    assert live.notice is not None
    assert "nothing is staged" in live.notice.text


def test_the_launch_command_goes_to_a_file_with_keys_as_variables() -> None:
    server = ServerPart(
        model_path="m/my model",
        api_key="env:MY_KEY",
        args={"json_model_override_args": {"a": 1}},
        env={"LD_LIBRARY_PATH": "/a:/b", "HF_TOKEN": "env:MY_TOKEN"},
        gpus=(0, 1),
        cwd="/my place",
    )
    path = write_command(running_arm(Profile("mine", None, server, SpeculativePart("NGRAM", {"num_draft_tokens": 8}))))
    text = path.read_text()
    assert "'m/my model'" in text
    assert '--api-key "$MY_KEY"' in text
    assert "--speculative-num-draft-tokens 8" in text
    assert "'{\"a\": 1}'" in text
    assert "LD_LIBRARY_PATH=/a:/b" in text
    assert 'HF_TOKEN="$MY_TOKEN"' in text
    assert "CUDA_VISIBLE_DEVICES=0,1" in text
    assert text.splitlines()[2].startswith("cd '/my place' && ")
    assert os.access(path, os.X_OK)


# -- predicting


def test_a_replay_is_read_for_the_pass_that_was_measured() -> None:
    said = {
        "settings": [
            {
                "exact": True,
                "why_not": None,
                "workloads": {
                    "json A warm": [{"accept_length": 4.0, "verify_steps": 10}],
                    "json B warm": [{"accept_length": 9.0, "verify_steps": 10}],
                },
            }
        ]
    }
    found = read_replay(json.dumps(said).encode(), result_pass("A"))
    assert found.accept_length == pytest.approx(4.0)
    assert found.exact
    assert "predicted accept length 4.00, about" in found.text


def test_each_pass_of_a_run_is_an_entry_of_its_own() -> None:
    entries = [
        {"exact": exact, "why_not": None, "workloads": {f"json A {name}": [{"accept_length": n, "verify_steps": 10}]}}
        for name, n, exact in (("cold", 2.0, True), ("warm", 4.0, False))
    ]
    found = read_replay(json.dumps({"settings": entries}).encode(), result_pass("A"))
    assert (found.accept_length, found.exact) == (pytest.approx(4.0), False)


def test_what_such_predictions_were_off_by_is_said() -> None:
    told = Prediction(3.0, 700.0, error=0.08, step_time_of="this node's step times").text
    assert told == "predicted accept length 3.00 (estimate, ±8 %), about 700 tok/s at this node's step times"


def test_a_replay_that_did_not_end_gives_a_reason() -> None:
    assert read_replay(b"", result_pass()).text == "no prediction: the replay did not end"


def test_a_shorter_chain_is_read_off_the_longer_one() -> None:
    arm = running_arm(profile("EAGLE3", num_steps=3, eagle_topk=1, draft_model_path="d"))
    staged = stage(arm, profile("EAGLE3", num_steps=1, eagle_topk=1, draft_model_path="d"))
    assert staged is not None
    found = chain_prediction(staged, result_pass())
    counts = (10, 10, 7)
    assert found.accept_length == pytest.approx(1 + (counts[1] + counts[2]) / sum(counts))
    longer = stage(arm, profile("EAGLE3", num_steps=9, eagle_topk=1, draft_model_path="d"))
    assert longer is not None
    assert "longer than the chain" in chain_prediction(longer, result_pass()).note


def test_without_a_run_there_is_no_prediction_and_it_says_so() -> None:
    arm = running_arm(profile(num_draft_tokens=8))
    staged = stage_step(arm, 1)
    assert staged is not None
    found = Predictor().ask(staged, None, None, lambda _p: None)
    assert found.accept_length is None
    assert "r measures" in found.note


def test_a_prediction_that_is_worked_on_is_said_to_be() -> None:
    assert Prediction(pending=True).text == "predicting …"


# -- following


def write_run(folder: Path, lines: list[Row]) -> Following:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return Following(RunHandle(folder, os.getpid(), -1.0))


def test_a_first_feed_says_what_it_has_had_and_what_it_waits_for(tmp_path: Path) -> None:
    began = {"t": 101.0, "kind": "phase", "arm": "A", "pass_name": "warm", "phase": "feed", "concurrency": 1}
    sample = {"t": 103.0, "kind": "sample", "arm": "A", "phase": "feed", "tokens": 1840, "steps": 600}
    run = write_run(tmp_path / "run", [*rows()[:2], {**began, "state": "begin"}, sample])
    run.pump()
    assert run.view(103.0).phase == "A is being fed, 1,840 tokens so far, until accept length no longer rises"
    run.usual_s = 1000.0
    assert run.view(103.0).phase == "A is being fed"
    assert run.view(103.0).left_s


def test_a_run_is_followed_to_its_end_and_judged(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", rows())
    live = Live(gpus=False)
    live.measuring.follow(run)
    live.look(300.0)
    figures = live.measuring.figures
    assert figures.final
    assert figures.comparison is not None
    shot = live.snapshot(300.0)
    assert [row.name for row in shot.table][:3] == ["output tok/s", "accept length", "step time"]
    assert shot.run is not None
    assert not shot.run.active
    assert shot.verdict


def test_a_run_whose_process_is_gone_is_interrupted_and_keeps_its_figures(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", rows()[:-1])  # no end row, and no such process
    live = Live(gpus=False)
    live.measuring.follow(run)
    assert live.measuring.active  # its last rows have only just come
    live.pump(300.0)
    live.look(300.0)
    assert live.snapshot(300.0).run.status == "interrupted"  # type: ignore[union-attr]
    assert live.measuring.figures.passes.keys() == {"A", "B"}
    assert live.notice is not None
    assert "what was measured is kept" in live.notice.text


def test_an_answer_is_followed_piece_by_piece(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", rows()[:1])
    text = [
        {"arm": "A", "rid": "r1", "pieces": [[1, "one "], [3, "two"]], "done": False},
        {"arm": "A", "rid": "r1", "pieces": [[2, " three"]], "done": True},
        {"arm": "A", "rid": "r2", "pieces": ["odd", [1, 7], [2, "new"]], "done": False},
    ]
    path = run.folder / "live.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in text[:2]))
    run.pump()
    assert run.answer is not None
    assert run.answer.pieces == ((1, "one "), (3, "two"), (2, " three"))
    with path.open("a") as file:
        file.write(json.dumps(text[2]) + "\n")
    run.pump()
    assert run.answer.rid == "r2"
    assert run.answer.pieces == ((2, "new"),)


# -- measuring and judging


def test_a_stranger_with_a_store_is_not_flushed_without_asking() -> None:
    measuring = Measuring(RunOptions(workload="json"))
    assert "spectui did not start it" in measuring.flush_question([ready_arm("NGRAM")])
    assert measuring.flush_question([ready_arm("EAGLE3")]) == ""


def test_an_arm_that_is_not_ready_is_not_measured() -> None:
    live = Live(gpus=False)
    with pytest.raises(SessionError, match="A is no running server"):
        live.run()
    live.arms["A"] = running_arm(profile())
    with pytest.raises(SessionError, match="A is not ready"):
        live.run()
    with pytest.raises(SessionError, match="B is empty"):
        live.compare()


def test_feeding_is_a_warm_pass_with_more_to_feed() -> None:
    options = feeding(RunOptions(workload="json", passes=("cold",)))
    assert options.passes == ("warm",)
    assert options.feed_tokens > RunOptions().feed_tokens


@pytest.mark.parametrize(
    ("reason", "helps"),
    [
        ("A's store is cold: 5 requests have fed the store 2,500 tokens", "press f to feed it first"),
        ("A's store has an unknown past: no flush was seen", "press f to feed it first"),
        ("A's store has seen these answers: 9 of 10 measured prompts had been sent before", "press w to choose other"),
        ("6 answers were known to a store as a whole, and on the 10 others alone no difference shown", "other prompts"),
        ("16 of 64 requests queue on A (limit 48)", "press w to choose another load"),
        ("B: 3 of 16 requests failed (at most 5 %)", "press c to compare again"),
        ("only 3 prompts were measured in both arms, at least 5 are needed", "press w to ask for more requests"),
    ],
)
def test_each_reason_has_the_key_that_helps_against_it(reason: str, helps: str) -> None:
    result = fold(rows())
    a, b = (side_of(result, (name, 1, "warm")) for name in "AB")
    unfair = replace(compare(a, b), verdict=Verdict("not a fair trial", (reason,)))
    assert helps in table.verdict_words(unfair)[0].rpartition(" — ")[2]


def test_a_verdict_is_a_sentence_with_the_key_that_helps() -> None:
    result = fold(rows())
    a, b = (side_of(result, (letter, 1, "warm"), name=letter) for letter in "AB")
    text, tone = table.verdict_words(compare(a, b))
    assert text.startswith(("A is faster", "A is slower", "no difference shown", "not a fair trial"))
    assert tone in ("good", "", "dim", "warn")
    cold = [row for row in rows() if row.get("phase") != "feed"]
    a = side_of(fold(cold), ("A", 1, "warm"), name="A")
    text, tone = table.verdict_words(compare(a, b))
    assert text.startswith("not a fair trial: A's store is cold")
    assert text.endswith("press f to feed it first")
    assert tone == "warn"


def test_a_relaunched_store_is_empty_whatever_the_last_run_fed(tmp_path: Path) -> None:
    measuring = Measuring(RunOptions())
    run = write_run(tmp_path / "run", rows())
    measuring.follow(run)
    assert "since the flush" in measuring.store_of("A", 210.0).detail
    assert measuring.store_of("A", 260.0, started=250.0).state == "cold"
    assert "it was started" in measuring.store_of("A", 260.0, started=250.0).detail


def test_the_way_back_is_among_the_keys_as_soon_as_a_flip_has_failed() -> None:
    from spectui.session.status import status_of

    live = Live(gpus=False)
    arm = live.arms["A"] = running_arm(profile(num_draft_tokens=8))
    arm.failure, arm.ready_before = "mine failed, draft path", (profile(num_draft_tokens=4),)
    assert status_of(live, "", "", 0.0).keys[:2] == ("focus_arm", "back")
    live.say("mine failed, draft path", "bad")
    assert status_of(live, "", "", 0.0).keys[0] == "back"
    arm.failure = ""
    assert "back" not in status_of(live, "", "", 0.0).keys


def test_enter_with_nothing_to_apply_says_why_and_what_leads_on() -> None:
    from spectui.session.status import status_of

    live = Live(gpus=False)
    live.opening = "looking for servers on this node …"
    assert live.nothing_to_apply == "nothing to apply yet: looking for servers on this node …"
    live.opening = ""
    assert live.nothing_to_apply.startswith("A is empty: o chooses a server")
    arm = live.arms["A"] = running_arm(profile(num_draft_tokens=8))
    arm.info = None
    assert live.nothing_to_apply.startswith("nothing to apply yet: A connecting to ")
    live.arms["A"] = ready_arm("NGRAM")
    assert live.nothing_to_apply.startswith("nothing is staged yet: ] and [ move the knob")
    live.stage_step(1)
    assert live.nothing_to_apply == ""
    live.drop()
    live.arms["A"].profile, live.arms["A"].failure = None, "died"  # found, not ours: enter cannot start it again
    assert "apply" not in status_of(live, "", "", 0.0).keys


def test_a_start_that_outlasts_the_last_one_says_so() -> None:
    arm = running_arm(profile(num_draft_tokens=8))
    arm.state = ServerState("graph capture", 12.4, running=True, left_s=3.0)
    assert arm.standing() == ("starting", "starting: graph capture, about 0:03 left")
    arm.state = ServerState("graph capture", 12.4, running=True, left_s=0.0)
    assert arm.standing()[1] == "starting: graph capture, 12 s so far, longer than the last start"


def test_a_miss_of_a_prediction_is_kept_once_and_only_where_it_was_promised(tmp_path: Path) -> None:
    result, one = fold(rows()), result_pass()
    simulated = fold([{**head({**arm_head("A"), "simulated": True})}])
    guess = Prediction(4.0, 500.0, kind=tracking.OTHER_TEXT, of=made_of(result, one))
    assert guess.of
    assert made_of(simulated, one) == ""
    for other in (replace(one, concurrency=9), replace(one, pass_name="cold")):
        assert note_miss(guess, "a", tmp_path / "run", result, other) == guess
    assert note_miss(guess, "a", tmp_path / "run", simulated, one) == guess
    assert tracking.misses() == ()
    done = note_miss(guess, "a", tmp_path / "run", result, one)
    assert note_miss(done, "a", tmp_path / "run", result, one) == done
    kept = {m.quantity: (m.kind, m.predicted, m.measured, m.run) for m in tracking.misses()}
    assert kept["accept length"] == (tracking.OTHER_TEXT, 4.0, one.accept_length, "run")
    assert set(kept) == {"accept length", "tokens a second"}
    assert len(tracking.misses()) == 2
