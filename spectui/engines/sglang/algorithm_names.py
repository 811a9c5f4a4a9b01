"""An algorithm's name: as asked, as a server reports it, and as it is called here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_ASKED_BY_FLAG = "--speculative-algorithm"


@dataclass(frozen=True, slots=True)
class Match:
    """Whether the algorithm asked for is the one in force."""

    state: str
    """match, mismatch or off."""
    shown: str
    """How to name what runs."""
    detail: str = ""

    @property
    def ok(self) -> bool:
        return self.state == "match"


def algorithm_name(value: object) -> str | None:
    """An algorithm's name as given by flag or body; None for off. 0.4.9's internal states hold a number instead."""
    if not isinstance(value, str) or value.strip().lower() in ("", "none", "null"):
        return None
    return value.strip().upper()


def algorithm_matches(
    asked: str | None, reported: str | None, draft_path: str | None = None, model_path: str | None = None
) -> Match:
    """Compare by meaning: SGLang rewrites NEXTN to EAGLE, or promotes it to FROZEN_KV_MTP (srt/server_args.py)."""
    want, have = algorithm_name(asked), algorithm_name(reported)
    if want is None and have is None:
        return Match("match", "none")
    if have is None:
        return Match(
            "off", f"{want} asked, speculation is OFF", f"{want} was asked for and the server runs without speculation"
        )
    if want == "NEXTN" and have in ("EAGLE", "NEXTN", "FROZEN_KV_MTP"):
        return Match("match", "NEXTN (MTP)" if have == "NEXTN" else f"NEXTN (MTP, server calls it {have})")
    if want is None:
        return Match("mismatch", have, f"no speculation was asked for and the server runs {have}")
    if want == have:
        built_in = have == "EAGLE" and draft_path and draft_path == model_path
        return Match("match", "EAGLE (draft from the model itself)" if built_in else have)
    if want in ("EAGLE", "EAGLE3") and have == "FROZEN_KV_MTP":
        return Match("mismatch", have, f"{want} was asked for; the draft's architecture made the server run {have}")
    return Match("mismatch", have, f"{want} was asked for and the server runs {have}")


def asked_in_command(raw: Mapping[str, Any]) -> str | None:
    """The algorithm in the launch command, which 0.5.23 repeats."""
    command = raw.get("launch_command")
    if not isinstance(command, str) or _ASKED_BY_FLAG not in command:
        return None
    rest = command.split(_ASKED_BY_FLAG, 1)[1].lstrip(" =\"'").split()
    return algorithm_name(rest[0].strip("\"'")) if rest else None


def neutral_algorithm(
    reported: str | None, draft_path: str | None, model_path: str | None, asked: str | None = None
) -> str:
    """Neutral name. EAGLE whose draft is the model itself, or which was asked for as NEXTN, is NEXTN."""
    have = algorithm_name(reported)
    if have is None:
        return "none"
    if have in ("EAGLE", "FROZEN_KV_MTP") and algorithm_name(asked) == "NEXTN":
        return "NEXTN"
    if have == "EAGLE" and draft_path and draft_path == model_path:
        return "NEXTN"
    return have
