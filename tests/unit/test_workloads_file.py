"""Workloads from a person's own file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.workloads import WorkloadError, from_file


def write(folder: Path, *items: Any) -> Path:
    path = folder / "mine.jsonl"
    path.write_text("\n".join(item if isinstance(item, str) else json.dumps(item) for item in items), "utf-8")
    return path


def test_every_shape_is_taken(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {"prompt": "one"},
        {"text": "two"},
        {"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "three"}]},
        {"conversations": [{"from": "human", "value": "four"}, {"from": "gpt", "value": "answer"}], "id": "x"},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "five"}]}], "group": "code"},
        {"prompt": "six", "max_tokens": 12},
    )
    workload = from_file(path)
    one, two, three, four, five, six = workload.measuring()
    assert one.messages == ({"role": "user", "content": "one"},)
    assert (two.text, two.messages) == ("two", None)
    assert [m["role"] for m in three.messages or ()] == ["system", "user"]
    assert four.messages == ({"role": "user", "content": "four"},), (
        "what the assistant said last is asked for, not given"
    )
    assert five.messages == ({"role": "user", "content": "five"},)
    assert six.max_tokens == 12
    assert workload.kinds == ("file", "code")
    assert not workload.marks


def test_lines_alternate_between_measuring_and_feeding(tmp_path: Path) -> None:
    workload = from_file(write(tmp_path, *({"prompt": f"p{i}"} for i in range(20))))
    asked = [(p.messages or ())[0]["content"] for p in workload.measuring()]
    fed = [(p.messages or ())[0]["content"] for p in workload.feeding()]
    assert asked == [f"p{i}" for i in range(0, 20, 2)]
    assert fed == [f"p{i}" for i in range(1, 20, 2)]
    assert workload.notes == ()
    assert workload.hash(0) != workload.hash(1)


def test_kinds_that_take_turns_in_a_file_are_on_both_sides(tmp_path: Path) -> None:
    path = write(tmp_path, *({"prompt": f"{kind} {n}", "group": kind} for n in range(10) for kind in ("chat", "code")))
    workload = from_file(path)
    for part in (workload.measuring(), workload.feeding()):
        assert [sum(p.group == kind for p in part) for kind in ("chat", "code")] == [5, 5]
    alone = from_file(write(tmp_path, *({"prompt": f"p{n}", "group": f"kind {n}"} for n in range(16))))
    assert (len(alone.measuring()), len(alone.feeding())) == (8, 8)


def test_a_file_of_few_lines_is_all_measured_and_says_so(tmp_path: Path) -> None:
    workload = from_file(write(tmp_path, {"prompt": "a"}, {"prompt": "b"}, {"prompt": "c"}))
    assert len(workload.measuring()) == 3
    assert workload.feeding() == ()
    assert "only 3 different prompts" in workload.notes[0]
    assert "nothing is left for feeding" in workload.notes[0]


def test_duplicates_are_left_out_and_reported(tmp_path: Path) -> None:
    lines = [{"prompt": f"p{i}"} for i in range(16)]
    repeated = {"messages": [{"role": "user", "content": "p3"}]}
    workload = from_file(write(tmp_path, *lines, repeated, {"prompt": "p0"}))
    assert len(workload.measuring()) + len(workload.feeding()) == 16
    assert "2 repeated" in workload.notes[0]
    assert "line 17 repeats line 4" in workload.notes[0]
    assert not {p.id for p in workload.measuring()} & {p.id for p in workload.feeding()}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"prompt": "a"', "not JSON"),
        ("plain words", "not JSON"),
        ("[1, 2]", "a list"),
        ("null", "null"),
        ('{"question": "a"}', "no prompt in it: it has 'question'"),
        ("{}", "it has nothing"),
        ('{"prompt": ""}', '"prompt" is empty'),
        ('{"prompt": 7}', '"prompt" must be text, not a number'),
        ('{"prompt": [1, 2, 3]}', "token ids"),
        ('{"prompt": null}', "missing or null"),
        ('{"prompt": "\\ud800"}', "half of a character pair"),
        ('{"messages": []}', "not empty"),
        ('{"messages": ["hi"]}', "turn 1"),
        ('{"messages": [{"role": "wizard", "content": "x"}]}', "'wizard'"),
        ('{"messages": [{"role": "assistant", "content": "x"}]}', "no turn of a user"),
        ('{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]}', "not text"),
        ('{"conversations": [{"from": "human"}]}', '"value" must be text'),
        ('{"conversations": {"from": "human"}}', "must be a list"),
        ('{"prompt": "a", "max_tokens": 0}', "max_tokens"),
        ('{"prompt": "a", "group": 3}', "group"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_broken_line_is_named_with_file_and_line(line: str, told: str, tmp_path: Path) -> None:
    path = write(tmp_path, {"prompt": "fine"}, "", line, {"prompt": "fine too"})
    with pytest.raises(WorkloadError) as caught:
        from_file(path)
    text = str(caught.value)
    assert str(path) in text
    assert "line 3" in text
    assert told in text
    assert len(text) < 1000


def test_many_broken_lines_are_counted(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=r"line 1: .*line 2: .*line 3: .*and 7 more"):
        from_file(write(tmp_path, *["nonsense"] * 10))


@pytest.mark.parametrize("content", [b"", b"\n\n  \n", b"\xef\xbb\xbf", b"[]"])
def test_an_empty_file_is_an_error(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_bytes(content)
    with pytest.raises(WorkloadError, match="holds no prompt"):
        from_file(path)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="cannot be read: No such file"):
        from_file(tmp_path / "missing.jsonl")
    with pytest.raises(WorkloadError, match="folder"):
        from_file(tmp_path)


def test_odd_bytes(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_bytes('\ufeff{"prompt": "a\u2028b"}\r\n{"prompt": "c\\nd"}\r\n'.encode())
    texts = [(p.messages or ())[0]["content"] for p in from_file(path).measuring()]
    assert texts == ["a\u2028b", "c\nd"]
    path.write_bytes(b'{"prompt": "ok"}\n{"prompt": "\xff"}\n')
    with pytest.raises(WorkloadError, match="line 2: not UTF-8"):
        from_file(path)


def test_one_array_is_taken_too(tmp_path: Path) -> None:
    path = tmp_path / "sharegpt.json"
    path.write_text(json.dumps([{"conversations": [{"from": "human", "value": f"q{i}"}]} for i in range(3)], indent=1))
    assert len(from_file(path).measuring()) == 3
    path.write_text(json.dumps([{"prompt": "a"}, {"nope": 1}]))
    with pytest.raises(WorkloadError, match="entry 2"):
        from_file(path)


def test_the_content_makes_the_hash_not_the_place(tmp_path: Path) -> None:
    first = from_file(write(tmp_path, {"prompt": "same"}))
    (tmp_path / "other").mkdir()
    second = from_file(write(tmp_path / "other", {"prompt": "same", "extra": 1}))
    assert first.hash() == second.hash()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["prompt", "text", "messages", "conversations", "role", "content", "from", "value", "group"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(values, max_size=4))
def test_any_json_gives_a_workload_or_a_clear_error(tmp_path_factory: pytest.TempPathFactory, items: list[Any]) -> None:
    path = write(tmp_path_factory.mktemp("any"), *(json.dumps(item) for item in items))
    try:
        workload = from_file(path)
    except WorkloadError as error:
        told = str(error)
    else:
        told = workload.source
        assert workload.measuring()
    assert str(path) in told
