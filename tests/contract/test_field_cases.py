"""Every field case is held by a test that exists: by name (``test_fcNN_…``), or by one named here."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from field_data import ids

TESTS = Path(__file__).parents[1]
ELSEWHERE = {
    "FC-62": ("ui/test_home.py", "test_every_size_is_drawn_and_the_first_one_again_is_complete"),
    "FC-84": ("e2e/test_launch_command.py", "test_a_launch_and_a_run_outlive_the_terminal"),
    "FC-85": ("e2e/test_launch.py", "test_a_megabyte_of_output_does_not_stop_the_server"),
}
"""Cases about terminals and processes whose test tells a longer story."""
BESIDE = (
    ("FC-63", "e2e/test_screen_endings.py", "test_signals_end_it_cleanly"),
    ("FC-63", "e2e/test_screen_endings.py", "test_a_fault_inside_is_one_sentence_and_exit_code_1"),
    ("FC-84", "e2e/test_screen_endings.py", "test_a_dropped_line_ends_it"),
    ("FC-61", "ui/test_home.py", "test_foreign_text_is_shown_harmless"),
)
"""What these cases need besides the test above."""


@cache
def names_in(path: str) -> frozenset[str]:
    tree = ast.parse((TESTS / path).read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, kinds))


@cache
def by_name() -> frozenset[str]:
    files = [file for place in ("contract", "ui", "e2e") for file in (TESTS / place).glob("test_field_*.py")]
    names = {name for file in files for name in names_in(str(file.relative_to(TESTS)))}
    return frozenset(f"FC-{number}" for name in names for number in re.findall(r"(?<=fc)\d\d", name))


def test_there_are_as_many_cases_as_were_met() -> None:
    assert len(ids()) == len(set(ids())) == 59


@pytest.mark.parametrize("case", ids())
def test_a_test_holds(case: str) -> None:
    where = ELSEWHERE.get(case)
    if where is None:
        assert case in by_name()
    else:
        assert where[1] in names_in(where[0])


@pytest.mark.parametrize(("case", "path", "name"), BESIDE)
def test_and_what_it_needs_besides(case: str, path: str, name: str) -> None:
    assert case in ids()
    assert name in names_in(path)
