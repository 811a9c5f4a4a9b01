"""Two arms compared: two servers in turn, a server against a stored run, or two stored runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from spectui.core.answers import Answers, compare_all
from spectui.core.compare import DRIFT, Comparison, compare
from spectui.core.evidence import is_stateful
from spectui.core.fairness import Side, side_of
from spectui.core.result import RunResult
from spectui.core.rows import Row
from spectui.core.spec import ArmSpec, RunSpec
from spectui.core.stats import MIN_UNITS, NO_DIFFERENCE, NOT_FAIR, Estimate, Verdict, needs_blocks, verdict
from spectui.session import SessionError, arms, disturbances, history_of_feeding, noise, remarks, running
from spectui.session.arms import Target
from spectui.session.compared import ArmSource, Compared, stored_spec
from spectui.session.noise import Floor
from spectui.session.running import RunHandle, RunOptions
from spectui.session.until_sure import Looked, UntilSure
from spectui.store import journal

__all__ = [
    "ArmSource",
    "Compared",
    "compare_live",
    "compare_sources",
    "live_spec",
    "live_target",
    "rerun_like",
    "source_of",
    "spec_like",
    "split_run",
]


def compare_sources(
    a: ArmSource,
    b: ArmSource,
    pass_name: str | None = None,
    *,
    looks: Mapping[int, Looked] | None = None,
    more: Sequence[str] = (),
) -> Compared:
    """Raises :class:`SessionError` where the arms have no pass at the same concurrency in common.

    ``looks``: how blocks that were measured until sure ended; their intervals take the place of the single look's.
    ``more``: further reasons to withhold the verdict.
    """
    keys_a = {(c, p): (n, c, p) for n, c, p in a.result.passes if n == a.arm}
    keys_b = {(c, p): (n, c, p) for n, c, p in b.result.passes if n == b.arm}
    common = [key for key in keys_a if key in keys_b]
    names = list(dict.fromkeys(p for _, p in common))
    if pass_name is not None and pass_name not in names:
        names = []
    if not names:
        raise SessionError(
            "nothing to compare: the arms were not measured in the same pass at the same concurrency "
            f"(A: {_listed(keys_a)}; B: {_listed(keys_b)})"
        )
    chosen = pass_name or names[-1]
    together = a.folder == b.folder
    # Answers of both, and what this node's history tells, make the proposers' states; read once.
    result = history_of_feeding.enriched(a.result, a.folder)
    a = replace(a, result=result)
    b = replace(b, result=result if together else history_of_feeding.enriched(b.result, b.folder))
    disturbed = [*more, *_disturbed(a, b)]
    rows, floors = [], {}
    greedy = _greedy(a) and _greedy(b)  # sampled answers differ by themselves
    answers_a, answers_b = (a.answers(), b.answers()) if greedy else ([], [])
    told: dict[int, Answers | None] = {}
    apart: list[str] = []
    for concurrency in dict.fromkeys(c for c, p in common if p == chosen):
        key_a, key_b = keys_a[concurrency, chosen], keys_b[concurrency, chosen]
        floor = _floor(a, b, concurrency)
        if floor is not None:
            floors[concurrency] = floor
        sides = side_of(a.result, key_a, name="A"), side_of(b.result, key_b, name="B")
        sd, drift = (floor.sd, floor.drift) if floor is not None else (0.0, DRIFT)
        row = compare(*sides, noise=sd, drift=drift)
        looked = (looks or {}).get(concurrency)
        if looked is not None:
            row = replace(row, throughput=looked.estimate)
        failed = any(not side.result.good for side in sides)  # then whatever else was seen says nothing
        reasons = [] if failed else [*disturbed, *_at_once(a, b, sides)]
        if greedy and not failed:
            theirs, mine = (_of(answers, concurrency, chosen) for answers in (answers_b, answers_a))
            told[concurrency] = compare_all(theirs, mine, ("B", "A"))
            reasons += remarks.broken(told[concurrency])
        if looked is not None or reasons:
            known = row.verdict.reasons if row.verdict.word == NOT_FAIR else ()
            row = replace(row, verdict=verdict(row.throughput, list(dict.fromkeys([*known, *reasons]))))
        row, note = remarks.without_known(row, sides, max(sd, row.apart))
        if note:
            apart.append(note)
        if row.verdict.word == NO_DIFFERENCE:
            bare = compare(*sides, drift=0.0).throughput
            row = replace(row, verdict=_beyond_noise(row, bare, floor, sd, together=together))
        rows.append(row)
    said = remarks.answers_text(told)
    notes = (*remarks.notes(a, b, rows, floors, looks or {}), *apart)
    return Compared(tuple(rows), a, b, chosen, said, floors, dict(looks or {}), notes)


def _beyond_noise(row: Comparison, bare: Estimate | None, floor: Floor | None, sd: float, *, together: bool) -> Verdict:
    """What is needed, where a part of the error does not shrink with more prompts. ``bare``: without that part."""
    if bare is None or bare.units < MIN_UNITS:
        return row.verdict
    if row.turns < 2 and row.apart > (floor.drift if floor is not None else DRIFT):
        todo = remarks.turns_need(row.concurrency, "the arms", together=together)
        weight = f"one pause of a server weighs {100 * row.apart:.0f} % of what was measured"
        return Verdict(NO_DIFFERENCE, (f"too short: without turns, {weight}; {todo}",))
    need = needs_blocks(bare)
    if not need.reachable:
        return Verdict(NO_DIFFERENCE, (need.text,))  # what the prompts leave open weighs more
    if row.turns < 2:
        what = f"{100 * row.apart:.1f} % allowed for what changes between arms that are not measured by turns"
        return Verdict(NO_DIFFERENCE, (noise.need_text(bare, row.apart, what),))
    if floor is None or sd <= 0:
        return row.verdict
    return Verdict(NO_DIFFERENCE, (noise.need_text(bare, sd, f"this node's noise floor of {100 * sd:.1f} %"),))


def _greedy(source: ArmSource) -> bool:
    return source.result.head.get("temperature") == 0


def _floor(a: ArmSource, b: ArmSource, concurrency: int) -> Floor | None:
    """The larger floor of the two, where they are of different nodes or GPUs."""
    known = noise.known()
    found = [noise.floor_for(noise.place_of(s.result, s.arm), concurrency, known) for s in (a, b)]
    return max((f for f in found if f is not None), key=lambda f: f.sd, default=None)


def _disturbed(a: ArmSource, b: ArmSource) -> list[str]:
    """Reasons that hold for all concurrencies of a run of both arms."""
    if a.folder != b.folder:
        return []
    found = []
    urls = {str(s.head().get("url")) for s in (a, b)}
    learning = [s.arm for s in (a, b) if is_stateful(str(s.head().get("algorithm") or ""))]
    if len(urls) == 1 and learning:
        found.append("A and B are the same server, and its store has seen B's answers when A asks, and A's when B asks")
    path = a.folder / "journal.jsonl"
    if len(urls) == 2 and path.is_file():
        found += disturbances.of_alternating(journal.read(path), a.result, (a.arm, b.arm))
    return found


def _at_once(a: ArmSource, b: ArmSource, sides: tuple[Side, Side]) -> list[str]:
    one, two = (side.result for side in sides)
    found = [] if a.folder == b.folder else disturbances.of_stored((a.result, one), (b.result, two))
    arms = (("A", a.result, one), ("B", b.result, two))
    return found + disturbances.other_runs(arms, (a.folder, b.folder))


def _of(answers: list[Row], concurrency: int, pass_name: str) -> list[Row]:
    return [r for r in answers if r.get("concurrency") == concurrency and r.get("pass_name") == pass_name]


def _listed(keys: Mapping[tuple[int, str], object]) -> str:
    return ", ".join(f"{p} ×{c}" for c, p in keys) or "nothing"


def source_of(folder: Path, arm: str | None = None) -> ArmSource:
    """A stored run as a side: its only arm, or the one named."""
    result = running.result_of(folder)
    names = result.arms
    if not names:
        raise SessionError(f"run {folder.name} measured nothing: {result.reason or 'it has no finished request'}")
    if arm is None and len(names) > 1:
        raise SessionError(f"run {folder.name} has arms {' and '.join(names)}; name one as {folder.name}:{names[0]}", 2)
    if arm is not None and arm not in names:
        raise SessionError(f"run {folder.name} has no arm {arm}; it has {', '.join(names)}", 2)
    return ArmSource(result, arm or names[0], folder)


def compare_live(
    a: ArmSpec,
    b: ArmSpec,
    options: RunOptions,
    on_row: Callable[[Row], None] | None = None,
    *,
    spec: RunSpec | None = None,
    watch: UntilSure | None = None,
) -> tuple[RunHandle, RunResult]:
    """Measures both servers in one run, in alternating blocks of the same prompts.

    ``spec``: made beforehand by :func:`live_spec`. ``watch``: looks at each block and ends the run once it is settled.
    """
    handle = running.start(spec or live_spec(a, b, options))

    def row(one: Row) -> None:
        if watch is not None:
            watch.row(one)
        if on_row is not None:
            on_row(one)

    return handle, running.wait(handle, row)


def live_spec(a: ArmSpec, b: ArmSpec, options: RunOptions) -> RunSpec:
    return running.build_spec([replace(a, name="A"), replace(b, name="B")], options)


def rerun_like(folder: Path, arm: ArmSpec, options: RunOptions) -> RunHandle:
    """Starts a run of a live arm on the prompts of a stored one, so that the two can be paired."""
    return running.start(spec_like(folder, arm, options))


def spec_like(folder: Path, arm: ArmSpec, options: RunOptions) -> RunSpec:
    """The spec of a stored run for another arm. Raises :class:`SessionError` where it cannot be read any more."""
    stored = stored_spec(folder)
    if stored is None:
        raise SessionError(
            f"run {folder.name} cannot be repeated: its spec.json cannot be read, so its prompts are gone"
        )
    fresh = running.build_spec([arm], replace(options, workload="short", file=None, requests=None))
    name = fresh.run_id.replace("-short-", f"-{stored.workload.name}-")
    return replace(
        stored,
        run_id=name,
        folder=str(Path(fresh.folder).with_name(name)),
        arms=(arm,),
        flush=options.flush,
        request_timeout_s=options.silence_s,
    )


def live_target(target: Target) -> bool:
    return target.url is not None


def split_run(text: str) -> tuple[Target, str | None]:
    """``RUN:B`` names one arm of a run of two; anything else is one name."""
    target = arms.resolve(text)
    return target, target.run_arm
