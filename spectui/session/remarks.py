"""What must be read beside a comparison: its load, whether the arms took turns, its answers; a sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import comb

from spectui.core.answers import Answers
from spectui.core.compare import DRIFT, Comparison, known_prompts, on_fresh
from spectui.core.evidence import is_stateful
from spectui.core.fairness import FAILURE_LIMIT, Side, queueing
from spectui.core.stats import FASTER, MIN_UNITS, NO_DIFFERENCE, NOT_FAIR, SLOWER, Verdict, verdict
from spectui.session.compared import ArmSource
from spectui.session.noise import Floor
from spectui.session.until_sure import Looked

BUSY_SHARE = 0.7
"""Of the concurrency: fewer requests in flight in the mean are another load than the one that was asked for."""


def notes(
    a: ArmSource,
    b: ArmSource,
    rows: Sequence[Comparison],
    floors: Mapping[int, Floor],
    looks: Mapping[int, Looked],
) -> Iterator[str]:
    if (a.folder, a.arm) == (b.folder, b.arm):
        yield "A and B are one and the same measurement: every ratio is 1"
    for name, source in (("A", a), ("B", b)):
        algorithm = str(source.head().get("algorithm") or "")
        if is_stateful(algorithm):
            yield (
                f"{name} is {algorithm}: it learns from its answers, so the same prompt again is no independent "
                "sample; each prompt counts once"
            )
        skipped = source.result.skipped
        if skipped:
            yield f"{name}: {skipped} rows of the journal could not be read"
    for row in rows:
        at = row.concurrency
        if at in looks:
            yield f"×{at}: {looks[at].text}"
        yield from _loads(a, b, row)
        if 1 < row.turns < MIN_UNITS and row.verdict.word == NO_DIFFERENCE:
            yield (
                f"×{at}: {row.turns} blocks by turns tell little of what the node does between them, so the interval "
                f"is wide: {MIN_UNITS * at} requests make {MIN_UNITS} blocks; --until-sure measures more where nothing "
                "learns"
            )
        if at in floors:
            near = "" if floors[at].concurrency == at else f", the nearest that was measured to {at}"
            yield f"×{at}: the interval holds the {floors[at].text}{near}"
    yield from _out_of_turn(a, b, rows, floors)
    if not floors:
        yield "no noise floor of this node was measured: spectui noise URL adds it to the intervals"


def _loads(a: ArmSource, b: ArmSource, row: Comparison) -> Iterator[str]:
    """Where fewer requests ran at a time than the row says."""
    level = row.concurrency
    passes = [p for s in (a, b) for k, p in s.result.passes.items() if k[0] == s.arm and k[1] == level and p.records]
    if level < 2 or not passes:
        return
    limits = {
        name: (source.head().get("server") or {}).get("max_running_requests")
        for name, source in zip("AB", (a, b), strict=True)
    }
    queued = queueing(level, limits)
    if len(queued) == 2 and limits["A"] == limits["B"]:
        yield f"×{level}: {'; '.join(queued)}: both served {limits['A']} at a time"
    if min(p.most_in_flight for p in passes) < level:
        return  # which the arms' notices say
    means = [p.in_flight or 0.0 for p in passes]
    if min(means) < BUSY_SHARE * level:
        told = (
            f"{min(means):.1f}" if max(means) - min(means) < 0.05 * level else f"{min(means):.1f} to {max(means):.1f}"
        )
        yield (
            f"×{level}: {told} requests were in flight in the mean, for they end one by one and too few follow: more "
            f"requests (--requests {4 * level}) hold the load"
        )


def _out_of_turn(a: ArmSource, b: ArmSource, rows: Sequence[Comparison], floors: Mapping[int, Floor]) -> Iterator[str]:
    """Rows whose arms were measured one after the other: what was allowed for that, and how to do without."""
    late = [row.concurrency for row in rows if row.turns < 2]
    if not late:
        return
    widest = max((row for row in rows if row.concurrency in late), key=lambda row: row.apart)
    share, seen = widest.apart, floors[widest.concurrency].drift if widest.concurrency in floors else DRIFT
    where = "" if len(late) == len(rows) else f"{', '.join(f'×{at}' for at in late)}: "
    source = "as seen on this node" if seen > DRIFT else "a guess"
    if share > seen:
        source = "they were measured for so short a time that one pause of a server weighs that much"
    todo = turns_need(max(late), together=a.folder == b.folder)
    yield (
        f"{where}the arms were measured one after the other, not by turns: {100 * share:.1f} % ({source}) is added to "
        f"the interval for what the node did in between; {todo}"
    )


def turns_need(concurrency: int, who: str = "them", *, together: bool) -> str:
    """What lets two arms take turns. ``together``: they were measured in one run."""
    if together:
        return f"at least {2 * concurrency} requests let {who} take turns"
    return f"one command that names both servers lets {who} take turns"


def answers_text(told: Mapping[int, Answers | None]) -> str:
    """At each concurrency where they are not the same sentence: what a batch breaks is seen in a crowd only."""
    said = {at: answers.detail for at, answers in told.items() if answers is not None}
    if len(set(said.values())) < 2:
        return next(iter(said.values()), "")
    return "; ".join(f"×{at}: {detail}" for at, detail in said.items())


def broken(answers: Answers | None) -> list[str]:
    """Broken text of one arm only: it is easily drafted, or ends at once, and its speed is that of nothing useful.

    A small model runs in circles now and then, on one side or the other: that counts only where one side does so more
    often than chance would have it. Nothing at all, or signs that are no text, count from a few on.
    """
    if answers is None:
        return []
    found = []
    if answers.unlike:
        found.append(
            f"{answers.unlike} of {answers.pairs} prompts were other tokens on each side, so another vocabulary or "
            "chat template: the arms were not asked the same; give both the same model and template"
        )
    theirs, mine = answers.hard
    for name, count, other, hard, what in (
        ("A", answers.broken, answers.broken_base, mine, answers.faults[1]),
        ("B", answers.broken_base, answers.broken, theirs, answers.faults[0]),
    ):
        if "so is the other" in what:
            continue
        if hard > max(1.0, FAILURE_LIMIT * answers.pairs) or _more_often(count, other):
            found.append(
                f"{name}: {count} of {answers.pairs} answers are broken where the other arm's are not: {what}; find "
                "out why before any speed is believed"
            )
    return found


def _more_often(count: int, other: int) -> bool:
    """Whether so many on one side against the other's are unlikely (5 %) where both have the same chance: the sign
    test."""
    whole = count + other
    return sum(comb(whole, k) for k in range(count, whole + 1)) < 0.05 * (1 << whole)


def without_known(row: Comparison, sides: tuple[Side, Side], noise: float) -> tuple[Comparison, str]:
    """A verdict must hold on the answers alone that no store had seen as a whole; else it is withheld. With a note on
    what they say, where there are any others."""
    known = known_prompts(*(side.result for side in sides))
    if not known or row.verdict.word not in (FASTER, SLOWER):
        return row, ""
    fresh = on_fresh(*sides, noise=noise)
    count = len({r.prompt_id for r in sides[0].result.records} - known)
    alone = verdict(fresh)
    held = f" ({fresh.ratio:.2f}×, [{fresh.low:.2f}, {fresh.high:.2f}])" if fresh is not None else ""
    if alone.word == row.verdict.word:
        return row, f"×{row.concurrency}: the {count} answers that no store had seen give the same verdict{held}"
    reason = (
        f"{len(known)} answers were known to a store as a whole before they were generated, and on the {count} others "
        f"alone {'nothing can be said' if fresh is None else alone.word}{held}: use more prompts whose answers differ"
    )
    return replace(row, verdict=Verdict(NOT_FAIR, (reason,))), ""
