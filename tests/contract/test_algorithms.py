"""What every algorithm must hold, whichever file it is in."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectui import algorithms
from spectui.algorithms._table import markdown
from spectui.core import settings
from spectui.core.settings import ACTIONS, KINDS, Algorithm
from spectui.core.versions import KNOWN, spell

ALL = algorithms.every()
IDS = [algorithm.name for algorithm in ALL]
VERSIONS = [None, "0.4.6", "0.5.13", "0.6.0", *map(spell, KNOWN)]


@pytest.fixture(params=ALL, ids=IDS)
def algorithm(request: pytest.FixtureRequest) -> Algorithm:
    return request.param


def test_the_ones_that_people_use_are_there():
    assert set(IDS) >= {"none", "NGRAM", "EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "DFLASH", "DSPARK", "UNO"}
    assert IDS[0] == "none"


def test_it_loads_and_explains_itself(algorithm: Algorithm):
    assert algorithm.error is None
    assert algorithm.mechanism.endswith(".")
    assert algorithm.mechanism.count(". ") == 0, "one sentence"
    assert algorithm.fits
    assert algorithm.starves
    assert algorithm.draft in ("yes", "no", "built-in")


def test_its_knobs_are_sound(algorithm: Algorithm):
    for knob in algorithm.knobs:
        assert knob.kind in KINDS
        assert knob.fault(knob.default) is None
        assert knob.help.endswith(".")
        assert bool(knob.choices) == (knob.kind == "choice")
        if knob.minimum is not None and knob.kind == "int":
            assert knob.fault(int(knob.minimum)) is None
            assert knob.fault(int(knob.minimum) - 1)


def test_its_rules_name_only_keys_that_exist(algorithm: Algorithm):
    known = {knob.key for other in ALL for knob in other.knobs} | {"num_steps", "eagle_topk", "tree_size", "frontier"}

    def check(key: str) -> None:
        assert key in known or key.startswith(("server.", "model.", "env.")), key

    for rule in algorithm.rules:
        assert rule.action in ACTIONS
        assert (rule.action in ("default", "force")) == bool(rule.sets)
        assert rule.text
        for test in rule.when:
            check(test.key)
            if isinstance(test.value, settings.Ref):
                check(test.value.key)
        for key, value in rule.sets:
            check(key)
            if isinstance(value, settings.Ref):
                check(value.key)


def test_its_brackets_move_up_and_down_and_stop_at_the_ends(algorithm: Algorithm):
    for bracket in algorithm.brackets:
        knob = algorithm.knob(bracket.key)
        assert knob is not None
        assert not any(knob.fault(step) for step in bracket.steps)
    if algorithm.brackets:
        bracket = algorithm.brackets[-1]
        in_force = {"eagle_topk": 1, bracket.key: bracket.steps[1]}
        up = settings.move(algorithm, {}, in_force, +1)
        down = settings.move(algorithm, {}, in_force, -1)
        assert (down[bracket.key], up[bracket.key]) == (bracket.steps[0], bracket.steps[2])
        end = {"eagle_topk": 1, bracket.key: bracket.steps[-1]}
        assert settings.move(algorithm, {}, end, +1) == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_it_can_be_planned_for_every_version(algorithm: Algorithm, version: str | None):
    plan = algorithms.resolve(algorithm.name, {}, {"page_size": 64, "dp_size": 2, "device": "cuda"}, version)
    assert plan.row("algorithm").in_force == algorithm.name
    for row in plan.rows:
        assert row.by_text
    for finding in plan.findings:
        assert "{" not in finding.text
        assert finding.text.endswith(".")


def test_it_is_refused_before_its_first_release_and_not_after(algorithm: Algorithm):
    if algorithm.since is None or algorithm.since == KNOWN[0]:
        return
    before = [version for version in KNOWN if version < algorithm.since]
    for version in before:
        refusals = algorithms.resolve(algorithm.name, {}, {}, spell(version)).refusals
        assert any("not in this release" in refusal.text for refusal in refusals)
    later = algorithms.resolve(algorithm.name, {}, {}, spell(algorithm.since)).refusals
    assert not any("not in this release" in refusal.text for refusal in later)


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("eagle-3", "EAGLE3"),
        ("Eagle 3", "EAGLE3"),
        ("ngram", "NGRAM"),
        ("MTP", "NEXTN"),
        (None, "none"),
        ("", "none"),
        ("off", "none"),
    ],
)
def test_typed_names_are_understood(typed: str | None, name: str):
    assert algorithms.for_name(typed).name == name


def test_an_unknown_name_is_a_plug_in_and_near_ones_are_suggested():
    plugin = algorithms.for_name("my_draft")
    assert plugin.plugin
    assert plugin.name == "MY_DRAFT"
    assert algorithms.nearest("EAGEL3") == "EAGLE3"
    assert algorithms.nearest("n_grams") == "NGRAM"
    assert algorithms.nearest("zzzzzz") is None
    plan = algorithms.resolve("my_draft", {"num_steps": 3, "odd": 1}, {}, "0.5.15")
    assert plan.ok
    assert plan.row("odd").in_force == 1
    assert not algorithms.resolve("my_draft", {}, {}, "0.5.5").ok


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("raise RuntimeError('no such table')", "no such table"),
        ("ALGORITHM = 3", "not an Algorithm"),
        ("import spectui_nothing", "spectui_nothing"),
        ("def (", "SyntaxError"),
        ("X = 1", "ALGORITHM"),
    ],
)
def test_a_broken_file_is_a_row_with_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, error: str):
    (tmp_path / "oddone.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "oddone", raising=False)
    broken = algorithms._from_module("oddone", "oddone")
    assert broken.name == "ODDONE"
    assert broken.error is not None
    assert error in broken.error
    assert not algorithms.plan.resolve(broken, {}).ok


def test_a_wrong_declaration_is_an_error_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "oddtwo.py").write_text(
        "from spectui.core.settings import *\n"
        "ALGORITHM = Algorithm('ODD', 'odd', 'Odd.', 'x', 'y', brackets=(Bracket('nothing', (1, 2)),))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    broken = algorithms._from_module("oddtwo", "oddtwo")
    assert broken.name == "ODD"
    assert broken.error is not None
    assert "nothing" in broken.error


def test_the_page_on_the_algorithms_is_current():
    page = Path(__file__).parents[2] / "docs" / "algorithms.md"
    assert page.read_text(encoding="utf-8") == markdown(), "python -m spectui.algorithms > docs/algorithms.md"
