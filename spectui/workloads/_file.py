"""A workload from a person's own file: JSON Lines of prompts, texts, chats or ShareGPT conversations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spectui.core.spec import Prompt
from spectui.workloads._workload import Sets, Workload, WorkloadError, messages_prompt, shuffled, text_prompt

FEW = 16
"""With fewer different prompts than this, all are measured and none is left for feeding."""
_SHOWN = 3
_SHAPES = '{"prompt": "…"}, {"text": "…"}, {"messages": […]} or {"conversations": […]}'
_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bot": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "assistant": "assistant",
    "model": "assistant",
    "system": "system",
    "developer": "developer",
    "tool": "tool",
}


class _Bad(ValueError):
    """One line that cannot be used: says what is wrong with it."""


def from_file(path: str | Path) -> Workload:
    """A workload of the file's prompts; every other one of a group feeds, the rest is measured, none does both.

    Lines: ``{"prompt": …}`` (one user's message, through the chat template), ``{"text": …}`` (a completion, sent as it
    is), ``{"messages": […]}`` or ShareGPT ``{"conversations": [{"from", "value"}, …]}`` (both up to their last user
    turn); optional ``"group"`` and ``"max_tokens"``. One JSON array of such objects is taken as well.

    Raises WorkloadError, with file, line and fault of the first few lines that cannot be used, and for a file that
    cannot be read or has no prompt.
    """
    path = Path(path).expanduser()
    prompts: dict[str, Prompt] = {}
    first_at: dict[str, str] = {}
    duplicates: list[str] = []
    faults: list[str] = []
    for place, item in _items(path):
        try:
            if isinstance(item, _Bad):
                raise item
            prompt = _prompt(item)
        except _Bad as fault:
            faults.append(f"{place}: {fault}")
            continue
        if prompt.id in prompts:
            duplicates.append(f"{place} repeats {first_at[prompt.id]}")
        else:
            prompts[prompt.id], first_at[prompt.id] = prompt, place
    if faults:
        raise WorkloadError(
            _some(faults),
            where=str(path),
            what_next=f"Each line is one JSON object: {_SHAPES}",
        )
    if not prompts:
        raise WorkloadError(
            "the file holds no prompt", where=str(path), what_next=f"Put one JSON object on each line: {_SHAPES}"
        )
    return _workload(path, tuple(prompts.values()), duplicates)


def _workload(path: Path, prompts: tuple[Prompt, ...], duplicates: list[str]) -> Workload:
    few = len(prompts) < FEW
    measuring, feeding = (prompts, ()) if few else _divided(prompts)
    notes = []
    if few:
        notes.append(
            f"only {len(prompts)} different prompt{'s' * (len(prompts) != 1)}: all are measured and nothing is left "
            f"for feeding, so there is no warm pass ({FEW} are enough for both)"
        )
    if duplicates:
        notes.append(f"{len(duplicates)} repeated, left out: {_some(duplicates)}")

    def build(seed: int) -> Sets:
        if seed == 0:  # the file's own order
            return Sets(feeding, measuring)
        return Sets(shuffled(feeding, seed, "file/feeding"), shuffled(measuring, seed, "file/measuring"))

    return Workload(
        name=path.name or "file",
        title=f"prompts of {path.name}",
        help=f"{len(prompts)} prompts of your own: {len(measuring)} measured, {len(feeding)} for feeding.",
        kinds=tuple(dict.fromkeys(prompt.group for prompt in prompts)),
        max_tokens=256,
        build=build,
        notes=tuple(notes),
        source=f"file:{path}",
    )


def _divided(prompts: tuple[Prompt, ...]) -> tuple[tuple[Prompt, ...], tuple[Prompt, ...]]:
    """Every other one measures, within each group: a file whose kinds take turns has all of them on both sides. Groups
    begin by turns with the one and the other, so that many small ones are divided too."""
    seen: dict[str, int] = {}
    parts: tuple[list[Prompt], list[Prompt]] = ([], [])
    for prompt in prompts:
        place = seen.get(prompt.group, len(seen))
        seen[prompt.group] = place + 1
        parts[place % 2].append(prompt)
    return tuple(parts[0]), tuple(parts[1])


def _some(sentences: list[str]) -> str:
    more = len(sentences) - _SHOWN
    return "; ".join(sentences[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def _items(path: Path) -> Iterator[tuple[str, Any]]:
    """(place, decoded value or fault) of each entry that is not blank."""
    try:
        content = path.read_bytes()
    except IsADirectoryError:
        raise WorkloadError("this is a folder", where=str(path), what_next="Name a file of JSON Lines") from None
    except OSError as fault:
        raise WorkloadError(
            f"the file cannot be read: {fault.strerror or fault}",
            where=str(path),
            what_next="Check the path and the rights",
        ) from None
    content = content.removeprefix(b"\xef\xbb\xbf")
    if content.lstrip().startswith(b"["):
        whole = _decoded(content)
        if isinstance(whole, list):
            yield from ((f"entry {number}", item) for number, item in enumerate(whole, 1))
            return
    # Split as bytes at LF only: text splitters also break at U+2028, which JSON allows inside strings.
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip():
            yield f"line {number}", _decoded(line)


def _decoded(raw: bytes) -> Any:
    try:
        return json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as fault:
        return _Bad(f"not UTF-8 at byte {fault.start + 1}")
    except json.JSONDecodeError as fault:
        return _Bad(f"not JSON: {fault.msg} at column {fault.colno}")
    except RecursionError:
        return _Bad("nested too deeply")
    except ValueError as fault:  # e.g. an integer with more digits than Python takes
        return _Bad(f"not JSON: {fault}")


def _prompt(item: Any) -> Prompt:
    if not isinstance(item, dict):
        raise _Bad(f"a JSON object is needed, this is {_kind(item)}")
    group = item.get("group", "file")
    if not isinstance(group, str) or not group.strip():
        raise _Bad('"group" must be a word')
    _check_text(group, '"group"')
    limit = item.get("max_tokens")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise _Bad(f'"max_tokens" must be a whole number from 1 up, not {limit!r}')
    if "messages" in item:
        return messages_prompt(group, _turns(item["messages"], "messages", "role", "content"), max_tokens=limit)
    if "conversations" in item:
        return messages_prompt(group, _turns(item["conversations"], "conversations", "from", "value"), max_tokens=limit)
    if "prompt" in item:
        message = {"role": "user", "content": _text(item["prompt"], '"prompt"')}
        return messages_prompt(group, [message], max_tokens=limit)
    if "text" in item:
        return text_prompt(group, _text(item["text"], '"text"'), max_tokens=limit)
    keys = ", ".join(sorted(repr(str(key)[:40]) for key in item)[:6]) or "nothing"
    raise _Bad(f"no prompt in it: it has {keys}")


def _turns(value: Any, key: str, role_key: str, text_key: str) -> list[dict[str, str]]:
    if not isinstance(value, list) or not value:
        raise _Bad(f'"{key}" must be a list of turns, and not empty')
    turns = []
    for number, turn in enumerate(value, 1):
        if not isinstance(turn, dict):
            raise _Bad(f'turn {number} of "{key}" is {_kind(turn)}, not an object')
        role = turn.get(role_key)
        if not isinstance(role, str) or role.lower() not in _ROLES:
            raise _Bad(f'turn {number} of "{key}": "{role_key}" is {role!r:.40}, not user, assistant or system')
        mapped = _ROLES[role.lower()]
        text = _text(turn.get(text_key), f'turn {number} of "{key}": "{text_key}"', empty=mapped == "assistant")
        turns.append({"role": mapped, "content": text})
    # What the assistant said last is the answer that the server is to give.
    while turns and turns[-1]["role"] == "assistant":
        turns.pop()
    if not any(turn["role"] == "user" for turn in turns):
        raise _Bad(f'"{key}" has no turn of a user to answer')
    return turns


def _text(value: Any, what: str, *, empty: bool = False) -> str:
    if isinstance(value, list) and value and all(isinstance(part, int) for part in value):
        raise _Bad(f"{what} holds token ids: text is needed")
    if isinstance(value, list) and value and all(isinstance(part, dict) for part in value):
        if any(not isinstance(part.get("text"), str) for part in value):
            raise _Bad(f"{what} holds parts that are not text: only text can be sent")
        value = "".join(part["text"] for part in value)
    if not isinstance(value, str):
        raise _Bad(f"{what} must be text, not {_kind(value)}")
    if not value.strip() and not empty:
        raise _Bad(f"{what} is empty")
    _check_text(value, what)
    return value


def _check_text(value: str, what: str) -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as fault:
        raise _Bad(f"{what} has half of a character pair at position {fault.start + 1}") from None


def _kind(value: Any) -> str:
    if value is None:
        return "missing or null"
    names = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", dict: "an object"}
    return names.get(type(value), type(value).__name__)
