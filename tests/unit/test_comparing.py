"""Comparisons of stored runs: what disturbs them, what is remembered, why answers part ways, and curves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import core_records as made
import pytest

from spectui.core import curves
from spectui.core.answers import Answers
from spectui.core.result import fold
from spectui.core.rows import Row
from spectui.engines.sglang.errors import Refused
from spectui.session import SessionError, comparing, differing, disturbances, history_of_feeding, noise, remarks
from spectui.session.compared import ArmSource


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path / "home"))


def runs() -> Path:
    from spectui.store import locations

    return locations.runs_dir()


def keep(name: str, rows: list[Row]) -> Path:
    folder = runs() / name
    folder.mkdir()
    (folder / "journal.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    return folder


def run(algorithm: str = "none", start: float = 1000.0, lasts: float = 1.0, count: int = 8, **values: Any) -> list[Row]:
    head = made.head(made.arm_head("A", algorithm, **values.pop("arm", {})), node={"host": "node"}, **values)
    rows = [{**head, "t": start - 1}]
    for n in range(count):
        at = start + 2.0 * n
        took = lasts * (1 + 0.01 * (n % 3))
        record = made.record(n, start_s=at, first_s=at + 0.1, last_s=at + took, end_s=at + took)
        rows.append(made.row_of(replace(record, verify_steps=40 if algorithm != "none" else None)))
    return [*rows, {"t": start + 2.0 * count, "kind": "end", "status": "complete"}]


def source(name: str, rows: list[Row]) -> ArmSource:
    return comparing.source_of(keep(name, rows))


def test_the_noise_floor_widens_the_interval_and_is_named() -> None:
    a, b = source("a", run(lasts=0.98)), source("b", run(start=9000.0))
    bare = comparing.compare_sources(a, b)
    assert bare.floors == {}
    assert any("no noise floor of this node" in note for note in bare.notes)
    noise.keep([noise.Floor("node", "", "m", 1, 0.08, 0.16, 20, 1)])
    held = comparing.compare_sources(a, b)
    one, two = (c.rows[0].throughput for c in (bare, held))
    assert one is not None
    assert two is not None
    assert (two.low < one.low, two.high > one.high) == (True, True)
    assert held.rows[0].verdict.word == "no difference shown"
    reason = held.rows[0].verdict.reasons[0]
    assert reason.startswith("with 8.0 % allowed for what changes between arms that are not measured by turns only")
    assert "differences of about 25 % can be seen" in reason
    assert held.as_json()["by_concurrency"][0]["noise_floor"]["sd"] == 0.08


def by_turns(
    level: int, blocks: int, each: int, *, slow: float = 1.0, start: float = 1000.0, takes: float = 1.0
) -> list[Row]:
    """Two arms without speculation in alternating blocks of ``takes`` seconds; those of B take ``slow`` times that."""
    rows = [made.head(made.arm_head("A", "none"), made.arm_head("B", "none"), node={"host": "node"})]
    t = start
    for number in range(blocks):
        for arm in "AB" if number % 2 == 0 else "BA":
            lasts = takes * (1.0 + 0.02 * (number % 3)) * (slow if arm == "B" else 1.0)
            for i in range(each):
                at = t + lasts * (i // level)
                record = made.record(
                    number * each + i, arm=arm, block=number, concurrency=level, start_s=at, first_s=at + 0.1,
                    last_s=at + lasts * 0.9, end_s=at + lasts * (1 - 0.001 * i),
                )  # fmt: skip
                rows.append(made.row_of(record))
            t += 20.0
    return [*rows, {"t": t, "kind": "end", "status": "complete"}]


def both(rows: list[Row], name: str = "both") -> tuple[ArmSource, ArmSource]:
    folder = keep(name, rows)
    return comparing.source_of(folder, "A"), comparing.source_of(folder, "B")


def test_one_block_each_is_one_after_the_other_and_allowed_for() -> None:
    once = comparing.compare_sources(*both(by_turns(8, 1, 8, slow=1.04, takes=4.0), "once"))
    row = once.rows[0]
    assert (row.turns, row.verdict.word) == (0, "no difference shown")
    assert "not measured by turns only differences of about 15 %" in row.verdict.reasons[0]
    assert any(
        note.startswith("the arms were measured one after the other, not by turns: 5.0 % (a guess) is added")
        and note.endswith("at least 16 requests let them take turns")
        for note in once.notes
    )
    often = comparing.compare_sources(*both(by_turns(8, 5, 8, slow=1.04, start=9e3), "often"))
    assert (often.rows[0].turns, often.rows[0].verdict.word) == (5, "faster")
    assert not any("by turns" in note for note in often.notes)


def test_one_short_block_each_carries_no_verdict_that_a_pause_of_the_server_could_have_made() -> None:
    """Bursts of 0.6 s, one server against itself, lay 17 % apart now and then: that much is no difference there."""
    short = comparing.compare_sources(*both(by_turns(16, 1, 16, slow=1.17, takes=0.6), "short"))
    row = short.rows[0]
    assert (row.turns, row.verdict.word) == (0, "no difference shown")
    assert row.apart == pytest.approx(0.15, rel=0.03)
    assert row.verdict.reasons[0].endswith("at least 32 requests let the arms take turns")
    assert any("one pause of a server weighs that much) is added" in note for note in short.notes)
    longer = comparing.compare_sources(*both(by_turns(16, 1, 16, slow=1.17, takes=9.0, start=9e3), "longer"))
    assert (longer.rows[0].turns, longer.rows[0].verdict.word) == (0, "faster")
    twice = comparing.compare_sources(*both(by_turns(16, 1, 16, slow=2.0, takes=0.6, start=9e4), "twice"))
    assert twice.rows[0].verdict.word == "faster"


def test_few_blocks_by_turns_say_what_would_make_more() -> None:
    said = comparing.compare_sources(*both(by_turns(16, 2, 16, slow=1.001)))
    assert said.rows[0].verdict.word == "no difference shown"
    assert any(
        "×16: 2 blocks by turns tell little" in note and "80 requests make 5 blocks" in note for note in said.notes
    )


def test_what_this_node_did_between_two_times_is_taken_where_it_was_measured() -> None:
    noise.keep([noise.Floor("node", "", "m", 8, 0.01, 0.02, 20, 1, apart=0.11)])
    said = comparing.compare_sources(*both(by_turns(8, 1, 8, slow=1.2)))
    assert said.rows[0].verdict.word == "no difference shown"
    assert any("11.0 % (as seen on this node) is added" in note for note in said.notes)
    turns = comparing.compare_sources(*both(by_turns(8, 5, 8, slow=1.2, start=9e3), "often"))
    assert turns.rows[0].verdict.word == "faster"


def test_fewer_requests_than_asked_for_at_a_time_are_told() -> None:
    few = comparing.compare_sources(*both(by_turns(16, 1, 8), "few"))
    said = few.as_json()["by_concurrency"][0]
    assert said["arms"]["A"]["most_in_flight"] == 8
    assert any("a result at 8 at a time" in notice for notice in said["arms"]["A"]["notices"])
    assert said["in_flight"]["A"] == pytest.approx(8, rel=0.01)
    full = comparing.compare_sources(*both(by_turns(8, 5, 8), "full"))
    assert not any("in flight" in note for note in full.notes)
    tail = by_turns(8, 5, 8)
    for row in tail:
        if row["kind"] == "request" and row["index"] % 8 > 1:
            row["end_s"] = row["last_s"] = row["start_s"] + 0.2
    thin = comparing.compare_sources(*both(tail, "thin"))
    assert any(
        note.startswith("×8: 3.") and "in flight in the mean" in note and "--requests 32" in note for note in thin.notes
    )


def test_without_speculation_on_either_side_there_is_no_break_even() -> None:
    row = comparing.compare_sources(*both(by_turns(1, 5, 2))).rows[0]
    assert row.break_even == (None, None)
    assert row.as_json()["break_even_accept_length"] == {"A": None, "B": None}


def test_an_arm_of_which_nothing_ended_well_has_that_one_reason() -> None:
    rows = run(start=9000.0)
    for row in rows:
        if row["kind"] == "request":
            row.update(status="failed", error="HTTP 500: boom", completion_tokens=None, verify_steps=None)
    a, b = source("a", run()), source("b", rows)
    keep("c", run(start=1003.0))  # which would be a reason by itself
    said = comparing.compare_sources(a, b)
    assert said.rows[0].verdict.reasons == ("B: all 8 requests failed: HTTP 500: boom",)


def answered(folder: Path, arm: str, texts: list[str], level: int = 8) -> None:
    with open(folder / "answers.jsonl", "a") as file:
        for n, text in enumerate(texts):
            row = {"arm": arm, "pass_name": "warm", "phase": "measure", "concurrency": level, "prompt_id": f"p{n}"}
            file.write(json.dumps({**row, "text": text}) + "\n")


def test_the_speed_of_broken_text_is_no_result_on_whichever_side_it_is() -> None:
    fine = [f"a sensible answer number {n}" for n in range(40)]
    for side, other in (("A", "B"), ("B", "A")):
        start = 1e4 if side == "B" else 1e3
        a, b = both(by_turns(8, 5, 8, slow=1.3, start=start), side)
        assert comparing.compare_sources(a, b).rows[0].verdict.word == "faster"
        answered(a.folder, side, [""] * 3 + ["no no " * 40] * 3 + fine[6:])
        answered(a.folder, other, fine)
        said = comparing.compare_sources(a, b)
        assert said.rows[0].verdict.word == "not a fair trial"
        assert said.rows[0].verdict.reasons == (
            f"{side}: 6 of 40 answers are broken where the other arm's are not: empty (3), repetition (3); find out "
            "why before any speed is believed",
        )
        assert said.answers == f"same on 34 of 40; 6 of {side}'s broken: empty (3), repetition (3)"
        (a.folder / "answers.jsonl").unlink()
        answered(a.folder, side, ["no no " * 40] * 3 + fine[3:])
        answered(a.folder, other, fine[:3] + ["hm hm " * 40] * 3 + fine[6:])
        assert comparing.compare_sources(a, b).rows[0].verdict.word == "faster"  # the model's own, on both sides


@pytest.mark.parametrize(("mine", "theirs", "rare"), [(3, 1, False), (4, 0, False), (5, 0, True), (12, 11, False)])
def test_a_model_that_runs_in_circles_now_and_then_does_so_on_either_side(mine: int, theirs: int, rare: bool) -> None:
    loop = {"A": mine, "B": theirs}
    told = Answers(40 - mine - theirs, 0, mine, None, "word", "", theirs, 0, ("repetition", "repetition"))
    assert bool(remarks.broken(told)) is rare, loop


def test_runs_that_overlap_on_one_host_are_no_fair_trial() -> None:
    a, b = source("a", run(arm={"url": "http://127.0.0.1:1"})), source("b", run(arm={"url": "http://localhost:2"}))
    said = comparing.compare_sources(a, b).rows[0].verdict
    assert said.word == "not a fair trial"
    assert said.reasons[0].startswith("both arms of one host were loaded at the same moment: the two runs overlap by")
    assert said.reasons[0].endswith("s on node")


def test_runs_of_two_hosts_may_overlap() -> None:
    a, b = source("a", run(arm={"url": "http://one:1"})), source("b", run(arm={"url": "http://two:1"}))
    assert comparing.compare_sources(a, b).rows[0].verdict.word != "not a fair trial"


def test_a_third_run_that_loaded_the_host_meanwhile_is_seen() -> None:
    a, b = source("a", run()), source("b", run(start=9000.0))
    keep("c", run(start=1003.0))
    said = comparing.compare_sources(a, b).rows[0].verdict
    assert said.reasons == (
        "A: another run, c, loaded node at the same time, for 13.0 s: measure again while it is not running",
    )


def test_runs_whose_folders_were_copied_here_did_not_run_at_the_same_time() -> None:
    """Their files are younger than they are: what counts is what their rows say."""
    a, b = source("a", run(start=5000.0)), source("b", run(start=9000.0))
    keep("c", run(start=1003.0))
    keep("d", run(start=7000.0))  # between the two
    assert comparing.compare_sources(a, b).rows[0].verdict.word != "not a fair trial"


def counters(arm: str, at: str, tokens: float, t: float) -> Row:
    values = {"sglang:generation_tokens_total": tokens}
    return {"t": t, "kind": "metrics", "arm": arm, "at": at, "counters": values}


def test_what_a_server_makes_between_its_blocks_is_not_ours() -> None:
    rows = [counters("B", "after", 1000, 10.0), counters("A", "before", 0, 10.1), counters("A", "after", 900, 12.0)]
    assert disturbances.idle_growth([*rows, counters("B", "before", 1010, 12.0)]) == {}  # health probes
    assert disturbances.idle_growth([*rows, counters("B", "before", 1500, 12.0)]) == {"B": 500}
    ours = made.row_of(made.record(arm="B", phase="warmup"))
    assert disturbances.idle_growth([*rows, ours, counters("B", "before", 1500, 12.0)]) == {}
    back = {"t": 11.0, "kind": "mark", "arm": "B", "name": "restarted", "detail": ""}
    assert disturbances.idle_growth([*rows, back, counters("B", "before", 1500, 12.0)]) == {}


def test_arms_without_a_pass_in_common_are_told_apart() -> None:
    a, b = source("a", run()), source("b", [{**r, "pass_name": "cold"} if "index" in r else r for r in run()])
    with pytest.raises(SessionError, match=r"A: warm ×1; B: cold ×1"):
        comparing.compare_sources(a, b)


def test_an_arm_is_named_by_its_run() -> None:
    keep("a", run())
    target, arm = comparing.split_run("a:A")
    assert (target.run is not None, arm) == (True, "A")
    assert comparing.split_run("a")[1] is None
    with pytest.raises(SessionError, match="'b:A' is neither"):
        comparing.split_run("b:A")
    with pytest.raises(SessionError, match="run a has no arm Z; it has A"):
        comparing.source_of(runs() / "a", comparing.split_run("a:Z")[1])


def test_a_stored_run_without_its_prompts_cannot_be_repeated() -> None:
    from spectui.core.spec import ArmSpec
    from spectui.session.running import RunOptions

    folder = keep("a", run())
    with pytest.raises(SessionError, match=r"run a cannot be repeated: its spec\.json"):
        comparing.spec_like(folder, ArmSpec("A", "http://h:1"), RunOptions())


def copying(alike: int, *, copied: float, fresh: float, start: float = 1000.0) -> tuple[ArmSource, ArmSource]:
    """A fed NGRAM arm and one without, by turns, 16 prompts; ``alike`` answers of A were given before to other prompts.
    ``copied`` and ``fresh``: seconds that such an answer, and another, takes on A; B takes one."""
    arms = made.arm_head("A", "NGRAM"), made.arm_head("B", "none", url="http://127.0.0.1:2")
    seen = [*range(0, 16, 2), *range(1, 16, 2)][:alike]
    rows = [{**made.head(*arms, node={"host": "node"}), "t": start}, made.flush()]
    rows += [made.row_of(r) for r in made.generated(20, 400, [3.0] * 20, phase="feed", first=100)]
    rows.append(made.fed(20, 8000, True))
    t = start + 100
    for number in range(8):
        for arm in "AB" if number % 2 == 0 else "BA":
            for i in (2 * number, 2 * number + 1):
                lasts = (1 + 0.02 * (i % 3)) * (1.0 if arm == "B" else copied if i in seen else fresh)
                record = made.record(
                    i, arm=arm, block=number, start_s=t, first_s=t + 0.02, last_s=t + lasts, end_s=t + lasts,
                    verify_steps=40 if arm == "A" else None,
                )  # fmt: skip
                rows.append(made.row_of(record))
                t += lasts
            t += 2.0
    folder = keep(f"copying-{start:.0f}", [*rows, {"t": t, "kind": "end", "status": "complete"}])
    with open(folder / "answers.jsonl", "w") as file:
        for i in range(16):
            ids = [1000 * i + k for k in range(80)]
            base = {"arm": "A", "pass_name": "warm", "concurrency": 1, "output_ids": ids}
            if i in seen:
                file.write(json.dumps({**base, "phase": "feed", "prompt_id": f"f{i}"}) + "\n")
            file.write(json.dumps({**base, "phase": "measure", "prompt_id": f"p{i}"}) + "\n")
    return comparing.source_of(folder, "A"), comparing.source_of(folder, "B")


def test_a_gain_that_rests_on_answers_the_store_had_seen_is_no_verdict() -> None:
    row = comparing.compare_sources(*copying(7, copied=0.6, fresh=1.0)).rows[0]
    assert row.verdict.word == "not a fair trial"
    assert row.verdict.reasons[0].startswith(
        "7 answers were known to a store as a whole before they were generated, and on the 9 others alone no "
        "difference shown (1.00×"
    )


def test_a_gain_that_holds_without_them_is_one_and_both_are_told() -> None:
    said = comparing.compare_sources(*copying(6, copied=0.5, fresh=0.6, start=1e4))
    assert said.rows[0].verdict.word == "faster"
    assert any("the 10 answers that no store had seen give the same verdict (1.67×" in note for note in said.notes)
    assert "; 6 of 16 answers were known to the store" in said.a.result.passes["A", 1, "warm"].proposer_state.detail
    none = comparing.compare_sources(*copying(0, copied=0.2, fresh=0.6, start=2e4))
    assert not any("no store had seen" in note for note in none.notes)


def test_where_most_answers_were_known_the_store_is_saturated_however_fast() -> None:
    said = comparing.compare_sources(*copying(9, copied=0.2, fresh=0.6, start=3e4))
    assert said.rows[0].verdict.reasons[0].startswith("A's store has seen these answers: 9 of 16 answers were known")
    assert "these were new, and their answers were not" in said.rows[0].verdict.reasons[0]


# -- what is remembered of feeding


def fed_run(tokens_each: int = 400, fed: int = 10) -> list[Row]:
    rows = [made.head(made.arm_head("A", "NGRAM"), node={"host": "node"}), made.flush()]
    feeding = made.generated(fed, tokens_each, [3.0] * fed, phase="feed", first=100)
    rows += [made.row_of(r) for r in feeding]
    rows.append(made.fed(fed, fed * tokens_each, True))
    rows += [made.row_of(r) for r in made.generated(8, 200, [3.0] * 8, first=200)]
    return [*rows, {"t": 999.0, "kind": "end", "status": "complete"}]


def test_the_fewest_tokens_of_stored_runs_are_the_yardstick_of_the_next() -> None:
    keep("first", fed_run(fed=15))
    starved = fed_run(fed=5)
    starved[-10]["detail"]["steady"] = False
    folder = keep("second", starved)
    evidence = history_of_feeding.enriched(fold(starved), folder).passes["A", 1, "warm"]
    assert evidence.evidence.steady_tokens == 6000
    assert evidence.proposer_state.name == "cold"
    assert evidence.proposer_state.detail == (
        "5 requests have fed the store 2,000 tokens; steady acceptance was reached after 6,000"
    )


def test_a_run_that_was_steady_earlier_need_not_wait_for_the_others() -> None:
    keep("first", fed_run(fed=15))
    rows = fed_run(fed=10)
    found = history_of_feeding.enriched(fold(rows), keep("second", rows)).passes["A", 1, "warm"]
    assert (found.evidence.steady_tokens, found.proposer_state.name) == (4000, "fed")


def test_runs_are_read_once_and_what_cannot_be_read_costs_nothing() -> None:
    folder = keep("first", fed_run())
    (keep("torn", []) / "journal.jsonl").write_text('{"kind": "head", "arms": [{"name": "A", "algorithm": "NGRAM"')
    assert [r["tokens"] for r in history_of_feeding.recall() if r.get("tokens")] == [4000]
    (folder / "journal.jsonl").unlink()
    assert [r["tokens"] for r in history_of_feeding.recall() if r.get("tokens")] == [4000]
    assert history_of_feeding.recall(except_run="first") == [
        r for r in history_of_feeding.recall() if r["run"] != "first"
    ]


# -- curves


def test_acceptance_over_position_counts_what_each_step_brought() -> None:
    bins = curves.over_position([(1, 2, 2, *[4] * 5), (1, *[1] * 20)])
    assert [(b.start, b.to) for b in bins] == [(0, 16), (16, 32)]
    # 1, 3, 5, 9, 13 | 17, 21 by their start; 1..15 | 16..20 of ones
    assert (bins[0].steps, bins[0].accept_length) == (20, pytest.approx((2 + 2 + 4 + 4 + 4 + 15) / 20))
    assert (bins[1].steps, bins[1].accept_length) == (7, pytest.approx((4 + 4 + 5) / 7))


def test_a_curve_over_tokens_has_its_half_life_and_turns_their_order() -> None:
    rows = [made.head(), made.flush()]
    lengths = [4.0 - 3.0 * 0.5 ** (n / 4) for n in range(24)]
    records = made.generated(24, 200, lengths)
    rows += [made.row_of(r) for r in records]
    one = fold(rows).passes["A", 1, "warm"]
    said = curves.curve_json(one, {r.prompt_id: 1 + r.index % 2 for r in records})
    assert said is not None
    assert said["half_life"] == pytest.approx(800, rel=0.15)
    assert said["end"] == pytest.approx(4.0, rel=0.05)
    told = [b["accept_length"] for b in said["tokens"]]
    assert told == sorted(told)
    assert [b["from"] for b in said["turn"]] == [1, 2]
    assert sum(b["steps"] for b in said["turn"]) == one.verify_steps
    plain = fold([made.head(made.arm_head("A", "none")), *(made.row_of(made.record(n)) for n in range(3))])
    assert curves.curve_json(plain.passes["A", 1, "warm"]) is None


# -- why answers part ways


class Server:
    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    def generate(self, **body: Any) -> dict[str, Any]:
        self.asked.append(body)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return {"meta_info": {"output_top_logprobs": answer}}


def answer(n: int, ids: list[int]) -> Row:
    return {"prompt_id": f"p{n}", "phase": "measure", "prompt_ids": [7, 8], "output_ids": ids, "text": f"text {ids}"}


def test_near_ties_are_counted_where_answers_part() -> None:
    base = [answer(1, [1, 2, 3]), answer(2, [1, 5]), answer(3, [4, 4])]
    other = [answer(1, [1, 9, 3]), answer(2, [1, 6]), answer(3, [4, 4])]
    server = Server([[[-0.9, 2, "b"], [-1.0, 9, "c"]]], [[[-0.1, 5, "x"], [-3.0, 1, "y"]]])
    said = differing.explain(base, other, server)
    assert (said.differing, said.looked, said.near) == (2, 2, 1)
    assert server.asked[0]["input_ids"] == [7, 8, 1]
    assert server.asked[0]["return_logprob"] is True
    assert said.gaps == (pytest.approx(0.1), pytest.approx(2.9))  # 6 is not listed: it counts as the last one
    assert said.text.startswith("1 of 2 differing answers")
    assert "1 where one was clearly the likelier (up to 2.9 apart): that is a real difference" in said.text
    assert said.as_json()["real_differences"] == 1


def test_differences_are_rounding_only_where_all_of_them_are() -> None:
    def told(*gaps: float) -> str:
        return differing.Differing(len(gaps), len(gaps), sum(g <= differing.NEAR for g in gaps), gaps).text

    assert told(0.1, 0.25).endswith("what bfloat16 leaves open): harmless rounding")
    assert "1 within 1, where rounding may have added up: harmless rounding" in told(0.1, 0.6)
    assert "real difference" in told(0.1, 1.5)
    assert "harmless" not in told(0.1, 1.5)


def test_who_is_asked_for_log_probabilities() -> None:
    assert differing.judge({"A": "EAGLE3", "B": "none"}) == "B"
    assert differing.judge({"A": "NGRAM", "B": "EAGLE3"}) == "B"
    assert differing.judge({"A": "DFLASH", "B": "NGRAM"}) == "B"
    assert differing.judge({"A": "DFLASH"}) is None  # some versions end where it is asked
    said = differing.no_judge([answer(1, [1, 2])], [answer(1, [1, 3])], ["DFLASH"])
    assert said.text.endswith("is not known: DFLASH gives no log-probabilities")


def test_at_most_eight_prompts_are_asked_about() -> None:
    base, other = ([answer(n, [1, d]) for n in range(12)] for d in (2, 3))
    server = Server(*[[[[-1.0, 2, ""], [-1.0, 3, ""]]]] * 12)
    assert differing.explain(base, other, server).looked == len(server.asked) == 8


@pytest.mark.parametrize(
    ("server", "part"),
    [
        (Server(Refused("no logprobs with NGRAM", "http://h", "")), "refused to tell log-probabilities"),
        (Server(None), "gave no log-probabilities"),
        (Server([[]]), "gave no log-probabilities"),
        (Server("nonsense"), "gave no log-probabilities"),
    ],
)
def test_a_server_that_tells_none_is_said(server: Server, part: str) -> None:
    said = differing.explain([answer(1, [1, 2])], [answer(1, [1, 3])], server)
    assert part in said.text
    assert "not known" in said.text


def test_without_ids_nothing_can_be_asked() -> None:
    base, other = ({**answer(1, []), "text": t} for t in ("one two", "one three"))
    said = differing.explain([base], [other], Server())
    assert "token ids were not kept" in said.text


def test_a_report_of_a_run_of_two_arms_says_what_compare_says(capsys: pytest.CaptureFixture[str]) -> None:
    from spectui.cli import run_command_line

    keep("20261130-101010-json-ab12", by_turns(8, 5, 8, slow=1.04, start=9e3))
    keep("20261130-101011-json-cd34", run())
    assert run_command_line(["export", "20261130-101010-json-ab12", "--format", "markdown"]) == 0
    told = capsys.readouterr().out
    assert "## A against B" in told
    [row] = [line for line in told.splitlines() if line.startswith("| 8 ")]
    assert "1.04× [" in row
    assert row.endswith("| **faster** |")
    assert "- no noise floor of this node was measured" in told
    assert run_command_line(["export", "20261130-101011-json-cd34", "--format", "markdown"]) == 0
    assert "against B" not in capsys.readouterr().out
