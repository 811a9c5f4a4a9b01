"""In which state was the drafter's memory, and does the text suit it? Thresholds are stated, names are never read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spectui.core.evidence import Evidence, Repetition, is_stateful
from spectui.core.trend import MIN_VALUES, Curve, rise, warm_up

FED_TOKENS = 2_000
"""Where no steady state has been recorded, the least that a store must have seen: about a dozen answers of ordinary
length. With less, a long answer of its own changes the store while it is being measured."""
LEAST_TOKENS = 1_000
"""Not even a feed that called itself steady is believed below this: short runs look steady by luck."""
HALF_LIVES = 3.0
"""After three half-lives an eighth of the rise is left; with a rise to twice the start that is 6 % of the end."""
SATURATED_SHARE = 0.2
"""Share of measured requests whose answer was known as a whole. One in five at a full draft's length moves accept
length by more than the differences that are looked for."""
KNOWN_ANSWERS_SHARE = 1 / 2
"""The same, where no prompt was sent before: unlike prompts may rightly get one answer, as a small model gives on
records of one shape (3 to 7 of 16 on a real server), and what comes after the measurement will be like that too. Below
this share the other answers are the majority, and a verdict must hold on them alone (``compare.on_fresh``)."""
POOR_ZERO_SHARE = 0.75
"""Share of verify steps without an accepted draft above which drafts mostly miss. On a real server fresh prose lies
at 0.6 to 0.8, rewriting at 0.65, records of one shape below 0.4."""


@dataclass(frozen=True, slots=True)
class ProposerState:
    """``name``: stateless, unknown, cold, warming, fed or saturated."""

    name: str
    detail: str
    half_life: float | None = None
    """In generated tokens, where a warm-up curve could be fitted."""
    needs: tuple[str, ...] = ()
    """What would make it a fair trial, a sentence each."""

    @property
    def fair(self) -> bool:
        """Whether a verdict may rest on it."""
        return self.name in ("stateless", "fed")

    def as_json(self) -> dict[str, Any]:
        return {"state": self.name, "detail": self.detail, "half_life": self.half_life, "needs": list(self.needs)}


def floor_tokens(evidence: Evidence) -> int:
    """The least number of tokens with which the store may be called fed."""
    if evidence.steady_tokens is not None:
        return max(LEAST_TOKENS, evidence.steady_tokens)
    return LEAST_TOKENS if evidence.fed_steady else FED_TOKENS


def proposer_state(evidence: Evidence) -> ProposerState:
    """The state in the measured window, from evidence alone."""
    kind = is_stateful(evidence.algorithm)
    if kind is False:
        name = evidence.algorithm or "none"
        what = "without speculation there is no draft" if name.lower() == "none" else f"{name} drafts from weights"
        return ProposerState("stateless", f"{what}: nothing is learned from answers")
    if kind is None and not _measured_rise(evidence).shown:
        return ProposerState("stateless", f"{evidence.algorithm} is not known to learn, and accept length did not rise")
    return _saturated(evidence) or _starved(evidence) or _rising(evidence) or _fed(evidence)


def _measured_rise(evidence: Evidence) -> Any:
    at = evidence.measured_from
    return rise(evidence.positions[at:], evidence.lengths[at:], evidence.steps[at:])


def warm_up_curve(evidence: Evidence) -> Curve | None:
    """Accept length over tokens since the flush, feeding and measuring together."""
    return warm_up(evidence.positions, evidence.lengths, evidence.steps)


def _saturated(evidence: Evidence) -> ProposerState | None:
    total = evidence.requests_measured
    repeats = evidence.repeated_prompts
    need = ("measure prompts that were not sent since the flush",)
    if total and repeats >= SATURATED_SHARE * total:
        lengths = evidence.lengths[evidence.measured_from :]
        climb = ""
        if len(lengths) > 1 and lengths[-1] > 1.25 * lengths[0]:
            climb = f"; accept length went from {lengths[0]:.1f} to {lengths[-1]:.1f}"
        said = f"{repeats} of {total} measured prompts had been sent before since the flush{climb}"
        return ProposerState("saturated", f"{said}: the store copies answers that it has seen", needs=need)
    seen = evidence.repetition
    if seen is None or seen.whole < KNOWN_ANSWERS_SHARE:
        return None
    said = known_answers(seen)
    need = ("use prompts whose answers differ: these were new, and their answers were not",)
    if seen.whole_within >= KNOWN_ANSWERS_SHARE:
        said = f"{round(seen.whole_within * seen.answers)} of {seen.answers} answers repeat themselves from end to end"
        need = ("let answers end by themselves, or use prompts whose answers do not run in circles",)
    return ProposerState("saturated", said, needs=need)


def known_answers(seen: Repetition) -> str:
    known = round(seen.whole * seen.answers)
    return f"{known} of {seen.answers} answers were known to the store as a whole before they were generated"


def _starved(evidence: Evidence) -> ProposerState | None:
    if evidence.primed and not evidence.primed_tokens:
        return None  # an external corpus of unknown size was loaded: only a rise can speak against it
    floor = floor_tokens(evidence)
    have = evidence.tokens_before + evidence.primed_tokens
    if have >= floor:
        return None
    reached = (
        f"steady acceptance was reached after {evidence.steady_tokens:,}"
        if evidence.steady_tokens is not None
        else f"fewer than {floor:,} were never seen to be enough"
    )
    per_request = evidence.tokens_measured / evidence.requests_measured if evidence.requests_measured else 0.0
    missing = floor - have
    more = f"feed at least {missing:,} more tokens before measuring"
    if per_request:
        more += f", about {max(1, round(missing / per_request))} requests of this size"
    if have:
        fed = [f"{_requests(evidence.requests_before)} have fed the store {evidence.tokens_before:,} tokens"]
        if evidence.primed_tokens:
            fed = [
                f"an external corpus holds {evidence.primed_tokens:,} tokens",
                *(fed if evidence.tokens_before else ()),
            ]
        said = f"{' and '.join(fed)}; {reached}"
    else:
        said = (
            f"nothing had been fed when measuring began, and the {_requests(evidence.requests_measured)} measured "
            f"({evidence.tokens_measured:,} tokens) fed the store only as they went; {reached}"
        )
    curve = warm_up_curve(evidence)
    if not evidence.history_known:
        said = f"no flush was seen, so what the store held before is not known; {said}"
        return ProposerState("unknown", said, needs=(more, "or flush first"))
    return ProposerState("cold", said, curve.half_life if curve else None, (more,))


def _rising(evidence: Evidence) -> ProposerState | None:
    found = _measured_rise(evidence)
    if not found.shown:
        return None  # what was measured decides; a rise that only feeding showed is told beside it
    curve = warm_up_curve(evidence)
    said = f"accept length still rose by {100 * found.share:.0f} % over the {found.values} measured requests"
    if curve is None:
        return ProposerState("cold", f"{said}, with no end in sight", needs=("feed longer, until it is steady",))
    passed = evidence.tokens_before / curve.half_life
    if passed >= HALF_LIVES:
        return None
    missing = round(HALF_LIVES * curve.half_life) - evidence.tokens_before
    return ProposerState(
        "warming",
        f"{said}: every {curve.half_life:,.0f} tokens bring half of what is left, {passed:.1f} times that had been fed",
        curve.half_life,
        (f"feed about {max(1, missing):,} more tokens before measuring",),
    )


def _fed(evidence: Evidence) -> ProposerState:
    curve = warm_up_curve(evidence)
    half = curve.half_life if curve else None
    values = len(evidence.lengths) - evidence.measured_from
    have = evidence.tokens_before + evidence.primed_tokens
    steadiness = "accept length was steady over the measured requests"
    if values < MIN_VALUES:
        if not evidence.fed_steady and not evidence.primed:
            return ProposerState(
                "unknown",
                f"only {values} requests tell their accept length, too few to see whether it still rises",
                half,
                (f"measure at least {MIN_VALUES} requests",),
            )
        steadiness = "accept length was steady at the end of feeding"
    source = f"{have:,} tokens of other answers"
    if evidence.primed:
        size = f" of {evidence.primed_tokens:,} tokens" if evidence.primed_tokens else ""
        source = f"an external corpus{size}"
        if evidence.tokens_before:
            source += f" and {evidence.tokens_before:,} tokens of other answers"
    if evidence.fed_rising:
        steadiness += ", though it still rose when feeding ended: more feeding may show a little more"
    if evidence.repetition is not None and evidence.repetition.whole > 0:
        steadiness += f"; {known_answers(evidence.repetition)}"
    return ProposerState("fed", f"fed by {source}; {steadiness}", half)


def _requests(count: int) -> str:
    return f"{count} request{'' if count == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Fit:
    """Does this text suit the drafter? ``name``: good, poor or unknown."""

    name: str
    detail: str


def fit(evidence: Evidence) -> Fit:
    """Judged by the share of steps in which nothing was accepted, once the state lets it count."""
    state = proposer_state(evidence)
    zero = evidence.zero_share
    if zero is None:
        return Fit("unknown", "verify steps are not known one by one on this route")
    said = f"in {100 * zero:.0f} % of verify steps no draft was accepted"
    if not state.fair:
        return Fit("unknown", f"{said}, but the store was {state.name}: {state.detail}")
    if state.name == "stateless" and evidence.algorithm.lower() in ("", "none"):
        return Fit("unknown", "there is no draft to suit")
    seen = evidence.repetition
    if seen is not None:
        said += f"; {100 * seen.known:.0f} % of the text had been generated before"
    if zero > POOR_ZERO_SHARE:
        return Fit("poor", f"{said}: this text does not suit {evidence.algorithm}")
    return Fit("good", said)
