"""Which settings a sweep has, in which order they run, what is dropped, how long it takes, when an arm has lost."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from core_records import record
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui import algorithms
from spectui.core.ngram import NgramSettings
from spectui.predict import tracking
from spectui.predict.breakeven import Length, Prediction, Setup, StepSample, StepTimeModel
from spectui.predict.lengths import ChainRun, chain_estimates, ngram_lengths, ngram_settings, predictions
from spectui.predict.replay import Pair, Source
from spectui.predict.settings_grid import Axes, Grid, Setting, baseline_arguments, build, launch_groups
from spectui.predict.sweep import Cell, Costs, EarlyStop, Measured, SweepPlan, plan
from spectui.predict.sweep_costs import costs


def grid(names: str, base: tuple[str, dict] = ("none", {}), **knobs: tuple) -> Grid:
    found = [algorithms.for_name(name) for name in names.split(",")]
    keys = {key.replace("__", "."): values for key, values in knobs.items()}
    return build(found, Axes(tuple(names.split(",")), keys, {"EAGLE3": "head"}), base=base)


def by_name(made: Grid) -> dict[str, Setting]:
    return {s.name: s for s in made.settings}


# -- the grid


def test_settings_that_the_server_makes_the_same_run_once() -> None:
    made = grid("EAGLE3", num_steps=(4, 7), num_draft_tokens=(5, 8, 16))
    assert [s.width for s in made.settings] == [5, 8, 5, 8, 5, 8] or [s.width for s in made.settings] == [5] * 3 + [
        8
    ] * 3
    assert sum(s.runs for s in made.settings) == 2
    assert made.texts == ("EAGLE3: 3 of 6 settings are the same once the server has applied steps + 1 (2 times)",)
    assert [s.name for s in made.settings if s.runs] == [
        "EAGLE3 4 steps, 5 draft tokens",
        "EAGLE3 7 steps, 8 draft tokens",
    ]


def test_a_chain_by_draft_tokens_alone_gets_its_steps() -> None:
    made = grid("EAGLE3", num_draft_tokens=(4, 8))
    assert [(s.knobs["num_steps"], s.knobs["eagle_topk"], s.width, s.chain) for s in made.settings] == [
        (3, 1, 4, True), (7, 1, 8, True)]  # fmt: skip
    assert all(s.runs for s in made.settings)


def test_knobs_go_to_the_algorithms_that_have_them() -> None:
    made = grid("none,NGRAM,EAGLE3", num_draft_tokens=(4, 8), ngram__max_trie_depth=(8, 18))
    assert [s.algorithm for s in made.settings] == ["none", *["NGRAM"] * 4, *["EAGLE3"] * 2]
    assert len({s.name for s in made.settings}) == 7
    assert "NGRAM 8 draft tokens, max trie depth 18" in by_name(made)
    assert made.settings[0].width == 1
    assert not any(s.chain for s in made.settings if s.algorithm == "NGRAM")


def test_the_profile_keeps_its_knobs_for_its_own_algorithm() -> None:
    made = grid("NGRAM,EAGLE3", ("NGRAM", {"ngram.max_trie_depth": 9}), num_draft_tokens=(4,))
    assert [s.knobs.get("ngram.max_trie_depth") for s in made.settings] == [9, None]


def test_refused_settings_are_listed_with_the_reason() -> None:
    made = grid("DFLASH,NGRAM", num_draft_tokens=(8,), ngram__min_bfs_breadth=(1, 20))
    refused = {s.name: s.refused for s in made.settings if s.refused}
    assert len(refused) == 2
    assert any("draft model" in str(why) for why in refused.values())
    assert any("breadth" in str(why) for why in refused.values())
    assert [s.runs for s in made.settings] == [False, True, False]


def test_thresholds_need_no_restart_and_draft_tokens_do() -> None:
    made = grid("EAGLE3", num_steps=(2, 3), accept_threshold_single=(0.8, 1.0))
    groups = launch_groups(made.settings)
    assert [[s.num_steps for s in group] for group in groups] == [[2, 2], [3, 3]]


def test_the_baseline_gets_the_limit_of_running_requests() -> None:
    made = grid("none,NGRAM", num_draft_tokens=(8,))
    assert baseline_arguments(made.settings, {"tp_size": 2}) == {"tp_size": 2, "max_running_requests": 48}
    assert baseline_arguments(grid("none").settings, {"tp_size": 2}) == {"tp_size": 2}


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from(["none", "NGRAM", "EAGLE3", "DFLASH", "EAGLE"]), min_size=1, max_size=4, unique=True),
    st.lists(st.integers(1, 20), max_size=3, unique=True),
    st.lists(st.integers(1, 8), max_size=2, unique=True),
    st.lists(st.integers(1, 4), max_size=2, unique=True),
)
def test_every_setting_is_one_of_run_same_or_refused(
    names: list[str], tokens: list[int], steps: list[int], topk: list[int]
) -> None:
    made = grid(",".join(names), num_draft_tokens=tuple(tokens), num_steps=tuple(steps), eagle_topk=tuple(topk))
    known = by_name(made)
    assert len(known) == len(made.settings)
    for setting in made.settings:
        if setting.same_as is not None:
            other = known[setting.same_as]
            assert other.same_as is None
            assert other.plan.in_force == setting.plan.in_force
            assert (other.refused is None) == (setting.refused is None)
    running = [repr(sorted(s.plan.in_force.items(), key=str)) for s in made.settings if s.runs]
    assert len(running) == len(set(running)), "no two that run are the same"


# -- the order


def predicted(speed: float, error: float = 0.05, *, extrapolated: bool = False, level: int = 1) -> Prediction:
    low, high = speed * (1 - 2 * error), speed * (1 + 2 * error)
    return Prediction(level, 2.0, 10.0, speed, low, high, error, "chain", extrapolated)


def measured(speed: float, error: float = 0.02, *, fair: bool = True) -> Measured:
    return Measured(speed, speed * (1 - 2 * error), speed * (1 + 2 * error), error, fair)


SET = [s for s in grid("none,NGRAM", num_draft_tokens=(4, 8, 16)).settings if s.runs]
N4, N8, N16 = (s.name for s in SET[1:])


def planned(levels: tuple[int, ...] = (1,), **values: object) -> SweepPlan:
    base: dict = {"predicted": {}, "measured": {}, "costs": Costs(), "now": 1000.0}
    return plan(SET, levels, **{**base, **values})


def test_the_baseline_runs_first_and_then_what_tells_most() -> None:
    found = planned()
    assert found.cells[0] == ("none", 1)
    assert found.cells[1] == (N16, 1), "the widest tells most while nothing is known"
    assert found.clock.restarts == 4
    assert found.clock.seconds == 4 * (120 + 60)
    assert found.clock.ends == 1720.0


def test_with_the_widest_known_the_narrowest_closes_the_span() -> None:
    guess = {(N4, 1): predicted(100, extrapolated=True), (N8, 1): predicted(100, extrapolated=True)}
    guess[N16, 1] = predicted(100)
    done = {("none", 1), (N16, 1)}
    found = planned(predicted=guess, measured={(N16, 1): measured(100)}, done=done)
    assert found.cells[0] == (N4, 1)


def test_a_predicted_loser_is_dropped_with_the_reason_and_can_be_kept() -> None:
    guess = {(N4, 1): predicted(50), (N8, 1): predicted(98)}
    found = planned(predicted=guess, measured={("none", 1): measured(100)}, done={("none", 1)})
    assert found.cells == ((N16, 1), (N8, 1)) or found.cells == ((N8, 1), (N16, 1))
    assert set(found.skipped) == {(N4, 1)}
    why = found.dropped((1,))[N4]
    assert why == "predicted 45–55 tok/s at 1 at a time, below none (measured 96–104)"
    kept = planned(predicted=guess, measured={("none", 1): measured(100)}, done={("none", 1)}, keep_losers=True)
    assert not kept.skipped
    assert (N4, 1) in kept.cells


def test_it_comes_back_when_what_it_lost_to_fails() -> None:
    guess = {(N4, 1): predicted(50), (N8, 1): predicted(98)}
    assert (N4, 1) in planned(predicted=guess).skipped
    assert (N4, 1) in planned(predicted=guess, failed={N8}).cells


def test_an_unfair_result_drops_nobody() -> None:
    guess = {(N4, 1): predicted(50)}
    found = planned(predicted=guess, measured={(N8, 1): measured(100, fair=False)}, done={(N8, 1)})
    assert not found.skipped


def test_the_better_one_by_the_minute_goes_first() -> None:
    guess = {(N4, 1): predicted(97, 0.1), (N8, 1): predicted(99, 0.1), (N16, 1): predicted(105, 0.1)}
    now = {"predicted": guess, "measured": {("none", 1): measured(100)}, "done": {("none", 1)}}
    assert [name for name, _ in planned(**now).cells] == [N16, N8, N4]
    slow = Costs({N16: 6000.0, N8: 10.0, N4: 10.0})
    assert [name for name, _ in planned(**now, costs=slow).cells] == [N8, N4, N16]


def test_what_runs_is_used_up_before_a_restart() -> None:
    found = planned((1, 4), running=N8, done={("none", 1), ("none", 4), (N8, 1)})
    assert found.cells[0] == (N8, 4)
    assert found.clock.restarts == 2


def test_hot_changes_go_before_relaunches() -> None:
    rows = [s for s in grid("EAGLE3", num_steps=(2, 3), accept_threshold_single=(0.8, 1.0)).settings if s.runs]
    found = plan(rows, (1,), predicted={}, measured={}, costs=Costs(), now=0.0, running=rows[2].name)
    assert [name for name, _ in found.cells][:2] == [rows[2].name, rows[3].name]
    assert found.clock.restarts == 1
    assert found.clock.settings == 4
    hot = plan(rows, (1,), predicted={}, measured={}, costs=Costs(), now=0.0, running=rows[2].name,
               done={(rows[2].name, 1)})  # fmt: skip
    assert next(name for name, _ in hot.cells) == rows[3].name
    assert hot.clock.restarts == 1


def test_a_loser_at_one_load_still_runs_at_the_other() -> None:
    guess = {(N4, 1): predicted(50), (N4, 8): predicted(100, level=8)}
    found = planned((1, 8), predicted=guess, measured={("none", 1): measured(100)}, done={("none", 1)})
    assert (N4, 1) in found.skipped
    assert (N4, 8) in found.cells
    assert found.dropped((1, 8)) == {}


def test_the_clock_in_words() -> None:
    text = planned(costs=replace(Costs(), guessed=True)).clock.text
    assert re.fullmatch(r"4 settings, 4 restarts, 12 minutes, ends \d\d:\d\d \(a guess: .*\)", text)
    nothing = planned(done={(s.name, 1) for s in SET}).clock
    assert (nothing.settings, nothing.restarts, nothing.seconds, nothing.guessed) == (0, 0, 0.0, False)


CELLS: list[Cell] = [(s.name, level) for s in SET for level in (1, 8)]


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.sampled_from(CELLS), st.tuples(st.floats(1, 1000), st.floats(0.0, 0.3)), max_size=8),
    st.dictionaries(st.sampled_from(CELLS), st.floats(1, 1000), max_size=6),
    st.sets(st.sampled_from([s.name for s in SET]), max_size=2),
    st.sampled_from([None, *(s.name for s in SET)]),
    st.booleans(),
)
def test_whatever_is_known_the_plan_holds_together(
    guesses: dict[Cell, tuple[float, float]], had: dict[Cell, float], failed: set[str], running: str | None, keep: bool
) -> None:
    guess = {cell: predicted(speed, error, level=cell[1]) for cell, (speed, error) in guesses.items()}
    known = {cell: measured(speed) for cell, speed in had.items()}
    running = None if running in failed else running
    found = plan(SET, (1, 8), predicted=guess, measured=known, failed=failed, done=set(known), costs=Costs(), now=0.0,
                 keep_losers=keep, running=running)  # fmt: skip
    cells = list(found.cells)
    assert len(cells) == len(set(cells))
    open_cells = {cell for cell in CELLS if cell[0] not in failed and cell not in known}
    assert set(cells) | set(found.skipped) == open_cells
    assert not set(cells) & set(found.skipped)
    assert not (keep and found.skipped)
    assert not any(name == "none" for name, _ in found.skipped)
    for level in (1, 8):
        rivals = {c: p.low for c, p in guess.items() if c[1] == level and c in open_cells}
        if rivals:
            # the one with the best lower end can only lose to something measured
            top = max(rivals, key=lambda c: rivals[c])
            assert top not in found.skipped or any(c[1] == level for c in known)
    if running is not None and any(name == running for name, _ in cells):
        assert cells[0][0] == running
    assert found.clock.seconds >= 0
    assert found.clock.restarts <= found.clock.settings


# -- what is predicted from


def test_costs_follow_what_this_node_took() -> None:
    sample = StepSample(Setup(), "none", 1, 0, 1, 10.0, 0.01, overhead_s=0.0, tokens=100.0)
    model = StepTimeModel.of([sample])
    values = {"requests": 10, "passes": ("warm",), "feeding": 64, "max_tokens": 256}
    found = costs(SET, (1,), predicted={}, model=model, starts={"none": 50.0, N4: None}, **values)
    assert found.start("none") == 50.0
    assert found.start(N4) == 50.0, "as others of this profile"
    assert found.run(("none", 1)) == pytest.approx(1.5 + 10 * 100 / 100)
    assert found.run((N4, 1)) == pytest.approx(1.5 + 74 * 100 / 100), "a store is fed first"
    assert not found.guessed
    twice = costs(SET, (1,), predicted={}, model=model, starts={"none": 50.0}, pace=2.0, **values)
    assert twice.run(("none", 1)) == pytest.approx(2 * found.run(("none", 1)))
    blind = costs(SET, (1,), predicted={}, model=StepTimeModel.of([]), starts=dict.fromkeys([N4]), **values)
    assert blind.guessed


TEXT = [Pair([1, 2, 3], [5, 6, 7, 8] * 8), Pair([1, 2, 4], [5, 6, 7, 8] * 8)]


def test_ngram_settings_are_those_in_force() -> None:
    setting = by_name(grid("NGRAM", num_draft_tokens=(6,), ngram__max_trie_depth=(9,)))
    store = ngram_settings(next(iter(setting.values())), "0.5.15.post1")
    assert store == NgramSettings(num_draft_tokens=6, max_trie_depth=9, version="0.5.15.post1")
    assert ngram_settings(SET[0], None) is None


def test_replayed_lengths_say_what_kind_they_are() -> None:
    source = Source({"w": TEXT}, written_by={"w": {"algorithm": "none"}})
    found = ngram_lengths(SET, source, (1, 4), version="0.5.15", spreads={})
    assert set(found) == {(name, level) for name in (N4, N8, N16) for level in (1, 4)}
    assert found[N4, 1].kind == tracking.OTHER_TEXT
    assert found[N4, 4].kind == tracking.SEVERAL
    assert "4 requests at a time" in found[N4, 4].note
    assert found[N16, 1].value > found[N4, 1].value > 1.5
    own = Source({"w": TEXT}, written_by={"w": {"algorithm": "NGRAM", "num_draft_tokens": 4}})
    kinds = {name: v.kind for (name, level), v in ngram_lengths(SET, own, (1,), version="0.5.15", spreads={}).items()}
    assert kinds[N4] == tracking.EXACT
    assert kinds[N8] == tracking.OTHER_TEXT


def test_shorter_chains_from_the_longest_one() -> None:
    rows = [s for s in grid("EAGLE3", num_steps=(1, 3, 5, 7)).settings if s.runs]
    run = ChainRun("EAGLE3", 5, 1, (50, 20, 10, 10, 5, 5), "head")
    short = ChainRun("EAGLE3", 3, 1, (100, 0, 0, 0), "head")
    found = chain_estimates(rows, [short, run], (1, 4), spreads={})
    assert found[rows[0].name, 1].value == pytest.approx(1.5)
    assert (rows[3].name, 1) not in found, "a longer chain than was measured is not known"
    assert "5 steps" in found[rows[1].name, 4].note
    other = ChainRun("EAGLE3", 5, 1, (50, 50, 0, 0, 0, 0), "another head")
    assert chain_estimates(rows, [other], (1,), spreads={}) == {}


def test_a_chain_that_accepts_otherwise_tells_nothing() -> None:
    rows = [s for s in grid("EAGLE3", num_steps=(2,), accept_threshold_single=(0.5, 1.0)).settings if s.runs]
    strict = ChainRun("EAGLE3", 3, 1, (5, 5, 5, 5), "head")
    assert set(chain_estimates(rows, [strict], (1,), spreads={})) == {(rows[1].name, 1)}


def test_what_cannot_be_predicted_says_why() -> None:
    model = StepTimeModel.of([StepSample(Setup(), "none", 1, 0, 1, 10.0, 0.01)])
    found, missing = predictions(SET, (1,), {(N4, 1): Length(2.0, 0.1, "other text")}, model)
    assert set(found) == {("none", 1)}
    assert "step time" in missing[N4, 1]
    assert "no recording of this workload" in missing[N8, 1]


# -- stopping early


def rows_of(seconds: float, count: int = 24) -> list:
    return [
        record(i, completion_tokens=100 + 7 * (i % 5), start_s=0.0, first_s=0.1, last_s=1.0,
               end_s=seconds * (1 + 0.02 * (i % 3)) * (1 + 0.07 * (i % 5)))
        for i in range(count)
    ]  # fmt: skip


def watch(seconds: float, count: int = 24) -> list[str]:
    stop = EarlyStop(rows_of(1.0), name="none", speculative=False, planned=24, noise=0.02)
    return [why for r in rows_of(seconds, count) if (why := stop.add(r, speculative=True))]


def test_an_arm_that_cannot_win_is_stopped_and_one_that_can_is_not() -> None:
    lost = watch(2.0)
    assert lost
    assert re.match(r"cannot win: 0\.50× \(up to 0\.\d\d×\) of none after \d+ of 24 requests", lost[0])
    assert watch(1.0) == []
    assert watch(0.5) == []
    assert watch(1.02) == []


def test_never_before_five_requests_and_never_near_the_end() -> None:
    assert watch(9.0, count=4) == []
    stop = EarlyStop(rows_of(1.0, 6), name="none", speculative=False, planned=6, noise=0.02)
    assert not any(stop.add(r, speculative=True) for r in rows_of(9.0, 6))
