"""Where a replay gets its token ids: a JSON file, or the folder of a run that kept them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

BEYOND = (
    "what earlier answers accepted beyond their end is in the server's store and in no answer; exact up to that (of "
    "170 fed requests of a real server, 2 took one verify step more; of 280 cold ones none)"
)
CORPUS = (
    "the pass was primed with an external corpus, which is not replayed: what drafts SGLang takes from a corpus is not "
    "known here, so this is what the store alone gives"
)


FED = -1
"""Block of what was fed before."""


class ReplaySourceError(ValueError):
    """The source cannot be replayed; one line that says what is wrong, where, and what would help."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One request as the server saw it: the ids of its prompt, chat template included, and of its whole output."""

    prompt_ids: Sequence[int]
    output_ids: Sequence[int]
    stopped: bool = False
    """It ended with a stop token. Where that token was a draft, the server's store also took in what the model would
    have said next, which no answer holds; taken to be the same each time."""
    at_once: int = 1
    """Requests that ran at a time where this one did."""
    block: int = 0
    """Requests of one block run together; those of the next begin once all of them have ended."""


@dataclass(frozen=True, slots=True)
class Source:
    """Recorded requests in the order the server took them, by workload. The store is empty before each workload."""

    workloads: Mapping[str, Sequence[Pair]]
    primers: Mapping[str, Sequence[Pair]] = field(default_factory=dict)
    """What was fed to the store between the flush and the workload of the same name."""
    reasons: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Why a replay of a workload is an estimate whatever the setting."""
    written_by: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Algorithm and settings in force of the server that wrote the text, where known; ``at_once``: at what load;
    ``overlap``: whether its scheduler overlapped."""

    recorded: bool = False
    """From a stored run: workloads are its passes, which are never taken together."""

    def at_load(self, level: int) -> Source:
        """The same requests, so many at a time."""
        if level < 1:
            raise ValueError(f"at least one request at a time, not {level}")

        def set_to(found: Mapping[str, Sequence[Pair]]) -> dict[str, list[Pair]]:
            return {
                name: [p if p.at_once == level else replace(p, at_once=level, block=0) for p in pairs]
                for name, pairs in found.items()
            }

        return replace(self, workloads=set_to(self.workloads), primers=set_to(self.primers))

    @property
    def overlap(self) -> bool:
        """Whether the schedulers that wrote the text overlapped; as they do by default where that is not known."""
        return all(written.get("overlap", True) for written in self.written_by.values())

    @property
    def version(self) -> str | None:
        """The one SGLang version with NGRAM that wrote all of the text; else None."""
        told = {str(written.get("version") or "") for written in self.written_by.values()}
        said = told.pop() if len(told) == 1 else ""
        release = re.match(r"\d+\.\d+\.\d+", said)
        return said if release and tuple(map(int, release[0].split("."))) >= (0, 5, 5) else None

    @property
    def tokens(self) -> int:
        """Output tokens of all workloads."""
        return sum(len(pair.output_ids) for pairs in self.workloads.values() for pair in pairs)


def load(path: str | Path, *, vocab_size: int | None = None) -> Source:
    """Read a JSON file (workload → list of ``{prompt_ids, output_ids}``) or a run folder.

    With the ``vocab_size`` of a model, ids beyond it are refused. Raises :class:`ReplaySourceError` with one line.
    """
    source = _load(path)
    if vocab_size is not None:
        for name, pairs in (*source.workloads.items(), *source.primers.items()):
            for index, pair in enumerate(pairs):
                largest = max((*pair.prompt_ids, *pair.output_ids))
                if largest >= vocab_size:
                    raise ReplaySourceError(
                        f"{path}: {_short(name)}[{index}] holds token id {largest}, but the model's vocabulary has "
                        f"{vocab_size}; these ids are of another vocabulary"
                    )
    return source


def _load(path: str | Path) -> Source:
    place = Path(path)
    try:
        if place.is_dir():
            return _load_run(place)
        content = place.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ReplaySourceError(
            f"{place}: no such file or folder; give a JSON file of token ids or the folder of a run that kept its ids"
        ) from None
    except UnicodeDecodeError:
        raise ReplaySourceError(f"{place}: not text, so not a JSON file of token ids") from None
    except OSError as error:
        raise ReplaySourceError(f"{place}: cannot be read: {error.strerror or error}") from None
    return _load_json(place, content)


_FORM = 'expected {"workload": [{"prompt_ids": […], "output_ids": […]}, …]}'


def _load_json(place: Path, content: str) -> Source:
    if not content.strip():
        raise ReplaySourceError(f"{place}: the file is empty; {_FORM}")
    try:
        said = json.loads(content)
    except json.JSONDecodeError as error:
        raise ReplaySourceError(f"{place}: not JSON (line {error.lineno}: {error.msg}); {_FORM}") from None
    except RecursionError:
        raise ReplaySourceError(f"{place}: nested too deeply; {_FORM}") from None
    if not isinstance(said, dict):
        raise ReplaySourceError(f"{place}: a {_kind(said)} at the top; {_FORM}")
    if not said:
        raise ReplaySourceError(f"{place}: no workload in it; {_FORM}")
    workloads: dict[str, Sequence[Pair]] = {}
    for name, rows in said.items():
        if not isinstance(rows, list):
            raise ReplaySourceError(f"{place}: {_short(name)} is a {_kind(rows)}, not a list; {_FORM}")
        if not rows:
            raise ReplaySourceError(f"{place}: {_short(name)} has no requests; leave it out or record some")
        pairs = [_pair(f"{place}: {_short(name)}[{index}]", row) for index, row in enumerate(rows)]
        workloads[name] = _stopped(pairs)
    return Source(workloads)


def _pair(where: str, row: object, *, stopped: bool = False, at_once: int = 1, block: int = 0) -> Pair:
    if not isinstance(row, dict):
        raise ReplaySourceError(f"{where} is a {_kind(row)}, not an object with prompt_ids and output_ids")
    return Pair(_ids(where, row, "prompt_ids"), _ids(where, row, "output_ids"), stopped, at_once, block)


def _stopped(pairs: Sequence[Pair]) -> list[Pair]:
    """Ids alone do not say why an answer ended. A token that ends answers, is never inside of one, and is in a prompt
    (the chat template ends turns with it) is the stop token."""
    inside = {token for pair in pairs for token in pair.output_ids[:-1]}
    asked = {token for pair in pairs for token in pair.prompt_ids}
    return [replace(p, stopped=p.output_ids[-1] not in inside and p.output_ids[-1] in asked) for p in pairs]


def _ids(where: str, row: Mapping[str, Any], name: str) -> list[int]:
    ids = row.get(name)
    if ids is None:
        raise ReplaySourceError(f"{where} has no {name}; a replay needs the token ids of prompt and output")
    if not isinstance(ids, list):
        raise ReplaySourceError(f"{where}.{name} is a {_kind(ids)}, not a list of token ids")
    if not ids:
        raise ReplaySourceError(f"{where}.{name} is empty; a replay needs the token ids of prompt and output")
    for place, token in enumerate(ids):
        if type(token) is not int:
            raise ReplaySourceError(f"{where}.{name}[{place}] is {_short(token)}, not a whole number")
        if not 0 <= token < 2**31:
            raise ReplaySourceError(f"{where}.{name}[{place}] is {_short(token)}; token ids are 0 to 2147483647")
    return ids


def _kind(value: object) -> str:
    names = {dict: "object", list: "list", str: "text", bool: "truth value", int: "number", float: "number"}
    return names.get(type(value), "null")


def _short(value: object) -> str:
    said = json.dumps(value)
    return said if len(said) <= 40 else said[:37] + "…"


def _rows(place: Path) -> Iterator[dict[str, Any]]:
    """Rows of a JSON-lines file; a torn last line is left out, anything else that is not JSON is an error."""
    lines = place.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            if number == len(lines):
                return
            raise ReplaySourceError(f"{place}: line {number} is not JSON; the file was changed or damaged") from None
        if isinstance(row, dict):
            yield row


def _load_run(folder: Path) -> Source:
    journal, answers = folder / "journal.jsonl", folder / "answers.jsonl"
    if not journal.is_file():
        raise ReplaySourceError(f"{folder}: no journal.jsonl in it, so not the folder of a run")
    if not answers.is_file():
        raise ReplaySourceError(
            f"{folder}: the run kept no answers, so there are no ids to replay; run again with its text kept"
        )
    heads: dict[str, dict[str, Any]] = {}
    head: dict[str, Any] = {}
    flushed: set[tuple[str, int, str]] = set()
    emptied: dict[tuple[str, int, str], set[str]] = {}
    begun: dict[tuple[str, int, str], set[str]] = {}
    failed: set[tuple[Any, ...]] = set()
    stopped: set[tuple[Any, ...]] = set()
    sent: dict[tuple[Any, ...], tuple[float, int]] = {}
    for row in _rows(journal):
        kind = row.get("kind")
        if kind == "head":
            head = row
            heads = {arm.get("name", "A"): arm for arm in row.get("arms", ()) if isinstance(arm, dict)}
        elif kind == "phase" and row.get("phase") == "flush" and (row.get("detail") or {}).get("flushed"):
            flushed.add(_pass_of(row))
            emptied[_pass_of(row)] = set(begun.get(_pass_of(row), ()))
        elif kind == "phase":
            begun.setdefault(_pass_of(row), set()).add(str(row.get("phase")))
        elif kind == "request":
            sent[_request_of(row)] = float(row.get("start_s") or 0.0), int(row.get("block") or 0)
            if row.get("status", "ok") != "ok":
                failed.add(_request_of(row))
            elif row.get("finish") == "stop":
                stopped.add(_request_of(row))
    rows: dict[tuple[str, int, str], dict[str, list[dict[str, Any]]]] = {}
    for row in _rows(answers):
        phases = rows.setdefault(_pass_of(row), {})
        phases.setdefault(str(row.get("phase", "measure")), []).append(row)
    for key, before in emptied.items():
        for phase in before & {"prime", "warmup", "feed"}:  # the store forgot them before measuring
            rows.get(key, {}).pop(phase, None)
    return _source_of_run(answers, head, heads, rows, flushed, failed, stopped, sent)


def _pass_of(row: Mapping[str, Any]) -> tuple[str, int, str]:
    return str(row.get("arm", "A")), int(row.get("concurrency") or 1), str(row.get("pass_name", ""))


def _request_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (*_pass_of(row), str(row.get("phase", "measure")), row.get("index"))


def _source_of_run(
    answers: Path,
    head: Mapping[str, Any],
    heads: Mapping[str, Mapping[str, Any]],
    rows: Mapping[tuple[str, int, str], Mapping[str, Sequence[Mapping[str, Any]]]],
    flushed: set[tuple[str, int, str]],
    failed: set[tuple[Any, ...]],
    stopped: set[tuple[Any, ...]],
    sent: Mapping[tuple[Any, ...], tuple[float, int]],
) -> Source:
    workloads: dict[str, Sequence[Pair]] = {}
    primers: dict[str, Sequence[Pair]] = {}
    reasons: dict[str, Sequence[str]] = {}
    written_by: dict[str, Mapping[str, Any]] = {}
    several_arms = len({arm for arm, _, _ in rows}) > 1
    several_loads = len({load for _, load, _ in rows}) > 1
    base = str((head.get("workload") or {}).get("name") or "run")
    for key, phases in rows.items():
        arm, concurrency, pass_name = key
        measured = [row for row in phases.get("measure", ()) if row.get("output_ids") or row.get("prompt_ids")]
        if not measured:
            continue
        name = " ".join(
            part
            for part in (base, arm if several_arms else "", pass_name, f"c{concurrency}" if several_loads else "")
            if part
        )
        if concurrency > 1:  # answers lie there in the order in which they ended
            measured.sort(key=lambda row: sent.get(_request_of(row), (0.0, 0))[0])
        workloads[name] = [
            _pair(
                f"{answers}: {name}[{row.get('index', place)}]",
                row,
                stopped=_request_of(row) in stopped,
                at_once=concurrency,
                block=sent.get(_request_of(row), (0.0, 0))[1] if several_arms else 0,
            )
            for place, row in enumerate(measured)
        ]
        before = [row for phase in ("prime", "warmup", "feed") for row in phases.get(phase, ())]
        if concurrency > 1:
            before.sort(key=lambda row: sent.get(_request_of(row), (0.0, 0))[0])
        primers[name] = [
            _pair(
                f"{answers}: {name}, {row.get('phase')}[{row.get('index', place)}]",
                row,
                stopped=_request_of(row) in stopped,
                at_once=concurrency,
                block=FED,
            )
            for place, row in enumerate(before)
            if row.get("output_ids") and row.get("prompt_ids")
        ]
        why = []
        if (head.get("temperature") or 0) > 0:
            why.append("sampled text (temperature above 0): verification was not greedy")
        if key not in flushed:
            why.append("no flush before the pass: what the store held then is not known")
        if len(primers[name]) < len(before) or any(entry[:3] == key for entry in failed):
            why.append("some requests left no ids")
        if primers[name] or any(pair.stopped for pair in workloads[name][:-1]):
            why.append(BEYOND)
        if pass_name == "primed":  # noqa: S105 - a pass of a run
            why.append(CORPUS)
        reasons[name] = why
        arm_head = heads.get(arm, {})
        if arm_head:
            in_force = arm_head.get("settings_in_force") or {}
            written_by[name] = {
                **in_force,
                "algorithm": arm_head.get("algorithm", ""),
                "version": arm_head.get("version", ""),
                "at_once": concurrency,
                "overlap": not (arm_head.get("server") or {}).get("disable_overlap_schedule"),
            }
    if not workloads:
        raise ReplaySourceError(
            f"{answers}: no token ids in it; ids come from the /generate route, or from a server that tokenises"
        )
    return Source(workloads, primers, reasons, written_by, recorded=True)
