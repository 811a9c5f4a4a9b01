"""Why greedy answers part ways: was the choice a near tie? Asked of a server after a run, where it is wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from spectui.core.answers import compare_rows
from spectui.core.rows import Row
from spectui.engines.sglang.errors import EngineError

MOST = 8
"""Differing prompts that are looked at: each costs a prefill of its prompt and its common beginning."""
NEAR = 0.25
"""Difference of log-probabilities that counts as a near tie: two steps of bfloat16 at logits of 16 to 32, as much as
another order of summing moves them."""
CLOSE = 1.0
"""Beyond this rounding explains nothing; between the two it may have added up over the layers and the answer."""
TOP = 5
JUDGES = ("NONE", "EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM")
"""Who may be asked, the best first. DFLASH and DSPARK know no log-probabilities, and some versions raise in the worker
where they are asked for, which ends the server."""


class Generating(Protocol):
    def generate(self, *, input_ids: list[int], sampling: Mapping[str, Any], **more: Any) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Differing:
    """``near`` of ``looked`` places are near ties; ``trouble`` says why no more could be looked at."""

    differing: int
    looked: int
    near: int
    gaps: tuple[float, ...] = ()
    trouble: str = ""

    @property
    def text(self) -> str:
        if not self.differing:
            return "no answer differs: there is nothing to explain"
        if not self.looked:
            return f"whether the differing answers part at a near tie is not known: {self.trouble}"
        more = f"; {self.trouble}" if self.trouble else ""
        said = (
            f"{self.near} of {self.looked} differing answers that were looked at part where two tokens were nearly as "
            f"likely (log-probabilities within {NEAR}, what bfloat16 leaves open)"
        )
        between = self.looked - self.near - self.real
        if between:
            said += f"; {between} within {CLOSE:g}, where rounding may have added up"
        if not self.real:
            return f"{said}: harmless rounding{more}"
        return (
            f"{said}; {self.real} where one was clearly the likelier (up to {max(self.gaps):.1f} apart): that is a "
            "real difference and no rounding; look for another model's draft, loosened thresholds or an attention "
            f"backend that does not fit, before any speed is believed{more}"
        )

    @property
    def real(self) -> int:
        """Differences that rounding cannot explain."""
        return sum(1 for gap in self.gaps if gap > CLOSE)

    def as_json(self) -> dict[str, Any]:
        return {
            "differing": self.differing,
            "looked_at": self.looked,
            "near_ties": self.near,
            "real_differences": self.real,
            "gaps": list(self.gaps),
            "text": self.text,
        }


def judge(algorithms: Mapping[str, str]) -> str | None:
    """Which of the sides (by name, with its algorithm) is asked; None where none may be."""
    able = {
        name: JUDGES.index(a.upper() or "NONE") for name, a in algorithms.items() if (a.upper() or "NONE") in JUDGES
    }
    return min(able, key=able.__getitem__, default=None)


def explain(base: Iterable[Row], other: Iterable[Row], server: Generating, most: int = MOST) -> Differing:
    """``server`` is asked for the log-probabilities at the first differing token of up to ``most`` prompts."""
    parted = _parted(base, other)
    ids = [(a, b, at) for a, b, at in parted if _places(a, b, at)]
    if parted and not ids:
        return Differing(len(parted), 0, 0, trouble="the answers' token ids were not kept or not sent on this route")
    gaps: list[float] = []
    trouble = ""
    for a, b, at in ids[:most]:
        try:
            gap = _gap(server, a, b, at)
        except EngineError as error:
            trouble = f"the server refused to tell log-probabilities: {error}"
            break
        if gap is None:
            trouble = "the server gave no log-probabilities"
            break
        gaps.append(gap)
    return Differing(len(parted), len(gaps), sum(1 for g in gaps if g <= NEAR), tuple(gaps), trouble)


def no_judge(base: Iterable[Row], other: Iterable[Row], algorithms: Iterable[str]) -> Differing:
    """Where none of the sides may be asked."""
    names = " and ".join(dict.fromkeys(algorithms))
    return Differing(len(_parted(base, other)), 0, 0, trouble=f"{names} gives no log-probabilities")


def _parted(base: Iterable[Row], other: Iterable[Row]) -> list[tuple[Row, Row, int]]:
    """Answers to the same prompt that differ, with the place from 1."""
    theirs = {r.get("prompt_id"): r for r in base if r.get("phase") in (None, "measure")}
    pairs = [
        (theirs[r.get("prompt_id")], r) for r in other if r.get("phase") == "measure" and r.get("prompt_id") in theirs
    ]
    return [(a, b, c.at) for a, b in pairs if (c := compare_rows(a, b)).state == "differs" and c.at]


def _places(a: Row, b: Row, at: int) -> bool:
    return bool(a.get("prompt_ids")) and len(a.get("output_ids") or ()) >= at and len(b.get("output_ids") or ()) >= at


def _gap(server: Generating, a: Row, b: Row, at: int) -> float | None:
    """How far apart the two tokens' log-probabilities are; a token beyond the listed ones counts from the last."""
    before = [*a["prompt_ids"], *a["output_ids"][: at - 1]]
    said = server.generate(
        input_ids=before,
        sampling={"max_new_tokens": 1, "temperature": 0},
        return_logprob=True,
        top_logprobs_num=TOP,
        logprob_start_len=-1,
    )
    meta = said.get("meta_info")
    listed = meta.get("output_top_logprobs") if isinstance(meta, dict) else None
    first = listed[0] if isinstance(listed, list) and listed else None
    found: dict[int, float] = {}
    for entry in first if isinstance(first, list) else ():
        if isinstance(entry, list | tuple) and len(entry) >= 2 and isinstance(entry[0], int | float):
            found[int(entry[1])] = float(entry[0])
    if not found:
        return None
    least = min(found.values())
    mine, theirs = (found.get(int(row["output_ids"][at - 1]), least) for row in (a, b))
    return abs(mine - theirs)
