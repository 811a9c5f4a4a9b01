"""What differs between SGLang versions, as data, and the one door through which its fields are read.

Six versions were read in source: 0.4.9.post4, 0.5.5, 0.5.10.post1, 0.5.12.post1, 0.5.15.post1 and 0.5.23. Any other
takes the nearest of them and says so in :attr:`Contract.note`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spectui.core import versions
from spectui.engines.sglang.flags import SERVER_SETTINGS, SPEC_SETTINGS, Setting, Spelling
from spectui.engines.sglang.routes import addresses_of

KNOWN = tuple(versions.spell(version) for version in versions.KNOWN)
NEWEST = KNOWN[-1]
SETTINGS: dict[str, Setting] = {setting.key: setting for setting in (*SPEC_SETTINGS, *SERVER_SETTINGS)}

_ALGORITHM_SINCE = {
    "EAGLE": "0.4.9",
    "EAGLE3": "0.4.9",
    "NEXTN": "0.4.9",
    "STANDALONE": "0.5.5",
    "NGRAM": "0.5.5",
    "DFLASH": "0.5.12",
    "DSPARK": "0.5.23",
    "UNO": "0.5.23",
}
_RATE_MEANING = {
    "0.4.9": "no accept rate is logged",
    "0.5.5": "(accepted drafts + bonus tokens) / (verify steps × (steps + 1))",
    "0.5.10": "(accepted drafts + bonus tokens) / (verify steps × draft tokens)",
    "0.5.12": "accepted drafts / (verify steps × (draft tokens − 1))",
    "0.5.15": "accepted drafts / (verify steps × (draft tokens − 1))",
    "0.5.23": "accepted drafts / (verify steps × (draft tokens − 1))",
}

# First present wins: names of 0.5.12 and later, their aliases, then those of 0.5.10.
_VERIFY = ("spec_verify_ct",)
_ACCEPTED = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
_PROPOSED = ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")
_HISTOGRAM = ("spec_correct_drafts_histogram", "spec_accept_histogram")


@dataclass(frozen=True, slots=True)
class SpecDetails:
    """Speculative counts of one finished request, whatever this version calls them. None: not told."""

    verify_steps: int | None = None
    accepted_drafts: int | None = None
    proposed_drafts: int | None = None
    histogram: tuple[int, ...] | None = None
    """h[k]: verify steps in which exactly k drafts were accepted, bonus token excluded."""

    def accept_length(self, completion_tokens: int) -> float | None:
        """Decode tokens a verify step: the first token came from prefill and belongs to none."""
        return max(completion_tokens - 1, 0) / self.verify_steps if self.verify_steps else None

    def accept_length_sglang(self, completion_tokens: int) -> float | None:
        """As the server counts it in ``spec_accept_length``, the first token included."""
        return completion_tokens / self.verify_steps if self.verify_steps else None

    @property
    def accept_rate(self) -> float | None:
        """Accepted over proposed drafts, by counts."""
        if self.accepted_drafts is None or not self.proposed_drafts:
            return None
        return self.accepted_drafts / self.proposed_drafts


@dataclass(frozen=True, slots=True)
class Contract:
    """What one version of SGLang offers and how it spells it."""

    version: str
    """The known version whose facts these are."""
    asked: str
    """The version that the server named."""
    exact: bool
    note: str
    """Empty when exact; else one sentence on what was taken instead."""

    def _at_least(self, version: str) -> bool:
        return KNOWN.index(self.version) >= KNOWN.index(version)

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Names that ``--speculative-algorithm`` takes here; "none" is the flag left out."""
        return ("none", *(name for name, since in _ALGORITHM_SINCE.items() if self._at_least(since)))

    @property
    def takes_plugin_algorithms(self) -> bool:
        """Any name may have been registered by a plug-in (srt/speculative/spec_registry.py)."""
        return self._at_least("0.5.12")

    @property
    def addresses(self) -> frozenset[str]:
        return addresses_of(self.version, KNOWN)

    def has(self, path: str) -> bool:
        return path in self.addresses

    def spelling(self, key: str) -> Spelling | None:
        """How this version writes a neutral setting; None where it has no such thing or the key is unknown."""
        setting = SETTINGS.get(key)
        if setting is None:
            return None
        for spelling in setting.spellings:
            if self._at_least(spelling.since) and not (spelling.until and self._at_least(spelling.until)):
                return spelling
        return None

    def flag(self, key: str) -> str | None:
        spelling = self.spelling(key)
        return spelling.flag if spelling else None

    def supports(self, key: str) -> bool:
        return self.spelling(key) is not None

    def spec_keys(self) -> tuple[str, ...]:
        """Neutral speculative settings that exist in this version."""
        return tuple(setting.key for setting in SPEC_SETTINGS if self.supports(setting.key))

    def flags(self) -> dict[str, str]:
        """Neutral key -> flag, for ``core.launch_line.arrange``; ``--flag=value`` where a plain yes is spelled so."""
        found = {key: self.spelling(key) for key in SETTINGS}
        return {key: f"{s.flag}={s.fixed}" if s.fixed else s.flag for key, s in found.items() if s is not None}

    def settings_of(self, info: Mapping[str, Any], *, spec: bool) -> dict[str, Any]:
        """Neutral settings as an info body (or one of its internal states) gives them; absent ones are left out."""
        found: dict[str, Any] = {}
        for setting in SPEC_SETTINGS if spec else SERVER_SETTINGS:
            current = self.spelling(setting.key)
            ordered = [current] if current else []
            # A body may carry an older name for a while, and the version may be a fork's: take what is there.
            for spelling in [*ordered, *setting.spellings]:
                if spelling.info_key in info:
                    value = info[spelling.info_key]
                    found[setting.key] = value == spelling.fixed if spelling.fixed else value
                    break
        return found

    @property
    def accept_rate_meaning(self) -> str:
        """What this version's logged accept rate divides by what."""
        return _RATE_MEANING[self.version]

    @property
    def has_admin_key(self) -> bool:
        return self._at_least("0.5.10")

    @property
    def health_means_ready(self) -> bool:
        """From 0.5.5 on /health makes one token; in 0.4.9 it answers 200 as soon as HTTP is up."""
        return self._at_least("0.5.5")

    @property
    def tokenizes_messages(self) -> bool:
        """/tokenize takes ``messages`` and applies the chat template."""
        return self._at_least("0.5.12")

    @property
    def usage_in_every_event(self) -> bool:
        """``stream_options.continuous_usage_stats`` of the OpenAI routes."""
        return self._at_least("0.5.5")

    @property
    def native_seed(self) -> bool:
        """/generate takes ``sampling_seed`` among its sampling parameters; before, an unknown one fails the request.

        srt/sampling/sampling_params.py. It moves samples only with ``--enable-deterministic-inference``.
        """
        return self._at_least("0.5.5")

    @property
    def chat_seed(self) -> bool:
        """``seed`` of a chat request reaches the sampler; before 0.5.10 it is taken and ignored
        (srt/entrypoints/openai/protocol.py)."""
        return self._at_least("0.5.10")

    @property
    def chat_meta_info(self) -> bool:
        """``return_meta_info`` on chat requests, not streamed."""
        return self._at_least("0.5.15")

    @property
    def chat_spec_details(self) -> bool:
        """``return_spec_tokens_details`` on chat and completion requests, streamed too."""
        return self._at_least("0.5.23")

    @property
    def output_ids_in_stream(self) -> str:
        """How /generate streams ids when not incremental: ``absent``, ``delta`` or ``cumulative``."""
        return {"0.4.9": "absent", "0.5.5": "delta"}.get(self.version, "cumulative")

    @property
    def may_count_extra_verify(self) -> bool:
        """spec_verify_ct may hold one step more a request than the histogram (overlapped verify after the end)."""
        return self.version in ("0.5.5", "0.5.10", "0.5.12")

    @property
    def counts_verify_calls(self) -> bool:
        """``sglang:spec_verify_calls_total`` exists."""
        return self._at_least("0.5.15")

    @property
    def set_state_tells_truth(self) -> bool:
        """Before 0.5.15 /set_internal_state tells nothing (0.4.9: 500 after applying; then always true)."""
        return self._at_least("0.5.15")

    @property
    def hot_keys(self) -> tuple[str, ...]:
        """Neutral settings that /set_internal_state can change on a running server."""
        return ("accept_threshold_single", "accept_threshold_acc")

    @property
    def info_may_hang_early(self) -> bool:
        """Before the first /generate the reply to an info or flush call is never read."""
        return not self._at_least("0.5.10")

    @property
    def external_corpora(self) -> bool:
        return self._at_least("0.5.12")


def contract_for(version: str | None) -> Contract:
    """The contract of a version string such as ``0.5.15.post1``; for any other that of the nearest known one.

    What nearest means is :attr:`spectui.core.versions.Standing.taken`.
    """
    asked = version or ""
    place = versions.standing(asked)
    shown = "" if place.known or place.version or not asked else f" It calls itself {asked[:80]!r}."
    return Contract(versions.spell(place.taken), asked, place.known, place.text + shown)


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value >= 0 and value == value and value != float("inf") else None


def _first_count(fields: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    for name in names:
        if (count := _count(fields.get(name))) is not None:
            return count
    return None


def spec_fields(meta_info: Mapping[str, Any] | None, version: str | None = None) -> SpecDetails:
    """Speculative counts out of a ``meta_info`` or ``sglext.spec_tokens_details``, under any version's names.

    ``version`` is only a label today: the names never meant two things. Missing, null or absurd parts are None.
    """
    if not isinstance(meta_info, Mapping):
        return SpecDetails()
    histogram: tuple[int, ...] | None = None
    for name in _HISTOGRAM:
        listed = meta_info.get(name)
        if isinstance(listed, list | tuple):
            counts = [_count(entry) for entry in listed]
            whole = tuple(count for count in counts if count is not None)
            if len(whole) == len(counts):
                histogram = whole
                break
    return SpecDetails(
        _first_count(meta_info, _VERIFY),
        _first_count(meta_info, _ACCEPTED),
        _first_count(meta_info, _PROPOSED),
        histogram,
    )
