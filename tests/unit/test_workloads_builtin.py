"""The workloads one by one, and how they are found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spectui import workloads
from spectui.workloads import _table

DOCS = Path(__file__).parents[2] / "docs" / "workloads.md"


def test_short_measures_exactly_five_unrelated_requests() -> None:
    assert len(workloads.load("short").measuring()) == 5


def test_repeat_is_one_prompt_and_marked_as_contaminating() -> None:
    repeat = workloads.load("repeat")
    assert len({p.id for p in repeat.measuring()}) == 1
    assert len(repeat.measuring()) >= 32
    assert repeat.ref().marks == ("contaminating",)
    assert all(not workloads.load(name).marks for name in workloads.names() if name != "repeat")


def test_the_default_is_real_text_of_at_least_three_kinds() -> None:  # FC-34
    default = workloads.load(workloads.DEFAULT)
    assert {"chat", "code", "rewriting"} <= set(default.kinds)
    assert not default.marks
    assert {p.group for p in default.measuring()[:5]} == set(default.kinds), "the first few are of every kind"


@pytest.mark.parametrize(
    ("source", "marks"),
    [
        ("random_ids", ("synthetic",)),
        ("random-ids", ("synthetic",)),
        ("builtin:mixed", ()),
        ("builtin:repeat", ("contaminating",)),
        ("repeat", ("contaminating",)),
        ("file:/data/prompts.jsonl", ()),
    ],
)
def test_random_token_ids_are_marked_and_texts_are_not(source: str, marks: tuple[str, ...]) -> None:  # FC-34
    assert workloads.marks_of_source(source) == marks


def test_chat_grows_turn_by_turn() -> None:
    seen: set[tuple[str, ...]] = set()
    lengths = set()
    for prompt in workloads.load("chat").measuring(3):
        turns = tuple(message["content"] for message in prompt.messages or ())
        lengths.add(len(turns))
        assert len(turns) == 1 or turns[:-2] in seen, "a later turn came before an earlier one"
        seen.add(turns)
    assert lengths == {1, 3, 5, 7}


def test_edit_gives_code_and_asks_for_it_back() -> None:
    edit = workloads.load("edit")
    texts = [(p.messages or ())[0]["content"] for p in (*edit.feeding(), *edit.measuring())]
    assert len(set(texts)) >= 96
    assert all(text.count("```") == 2 and text.startswith("Rewrite the ") for text in texts)
    assert not any("{thing" in text.lower() or "{{" in text for text in texts)


def test_edit_code_in_python_compiles() -> None:
    for prompt in workloads.load("edit").measuring():
        text = (prompt.messages or ())[0]["content"]
        if "```python\n" in text:
            compile(text.split("```python\n")[1].removesuffix("```"), prompt.id, "exec")


def test_json_asks_for_one_shape() -> None:
    asked = [(p.messages or ())[0]["content"] for p in workloads.load("json").measuring()]
    assert all('"id"' in text and '"name", "role", "city"' in text for text in asked)


def test_json_asks_for_other_people_each_time() -> None:
    """Given names: a small model would invent the same ones each time, and the store would know whole answers."""
    sets = workloads.load("json").build(0)
    people = []
    for prompt in (*sets.feeding, *sets.measuring):
        names = (prompt.messages or ())[0]["content"].rpartition("in this order: ")[2].rstrip(".").split(", ")
        asked = (prompt.messages or ())[0]["content"].split()
        assert len(names) == len(set(names)) == int(asked[1])
        people.append(names)
    told = [name for names in people for name in names]
    assert len(set(told)) == len(told)


def test_the_order_does_not_depend_on_the_process() -> None:
    code = "from spectui import workloads; print(workloads.load('mixed').hash(4))"
    told = [
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout.strip()
        for seed in ("1", "2")
    ]
    assert told == [workloads.load("mixed").hash(4)] * 2


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(workloads.WorkloadError, match=r"no workload 'mixd'.*Did you mean mixed"):
        workloads.load("mixd")


def test_resolve_takes_what_profiles_write(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"prompt": "hello"}\n')
    assert workloads.resolve("builtin:json").name == "json"
    assert workloads.resolve(f"file:{path}").source == f"file:{path}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import nothing_of_that_name", "nothing_of_that_name"),
        ("WORKLOAD = 3", "is not a Workload"),
        ("def broken(:", "SyntaxError"),
        ("", "WORKLOAD"),
        ("raise SystemError('odd')", "odd"),
        (
            "from spectui.workloads import Workload\n"
            "def build(seed): raise KeyError('lost')\n"
            "WORKLOAD = Workload('broken', 't', 'h.', ('k',), 64, build)",
            "lost",
        ),
        (
            "from spectui.workloads import Workload\nWORKLOAD = Workload('other', 't', 'h.', ('k',), 64, None)",
            "calls itself 'other'",
        ),
    ],
)
def test_a_broken_file_is_a_row_with_its_error(
    text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = f"broken_{abs(hash(text))}"
    folder = tmp_path / package
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "broken.py").write_text(text)
    (folder / "good.py").write_text(
        "from spectui.workloads import Sets, Workload\n"
        "WORKLOAD = Workload('good', 't', 'h.', ('k',), 64, lambda seed: Sets((), ()))"
    )
    monkeypatch.syspath_prepend(tmp_path)
    rows = {entry.name: entry for entry in workloads.catalogue(package)}
    assert rows["good"].workload is not None
    assert rows["broken"].workload is None
    assert told in (rows["broken"].error or "")
    assert "broken.py" in (rows["broken"].error or "")


def test_the_table_in_the_docs_is_current() -> None:
    assert DOCS.read_text("utf-8") == _table.markdown() + "\n", "python -m spectui.workloads._table > docs/workloads.md"
