"""Which stored result a check is held against: same workload, concurrency and pass, the newest evidence first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spectui.checks._intervals import Agreement, Figure, agree, figure, stored_figure
from spectui.checks._probe import Finding, not_checked

if TYPE_CHECKING:
    from spectui.checks._subject import Subject


@dataclass(frozen=True, slots=True)
class Held:
    """``figure``: of the pass that the store's state corresponds to; ``top``: of the warm pass, where the store is
    neither empty nor fed by us and the truth lies somewhere between."""

    figure: Figure
    pass_name: str
    top: Figure | None = None


def results_of(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    kept = entry.get("result")
    return [row for row in kept if isinstance(row, Mapping)] if isinstance(kept, list) else []


def entry_for(subject: Subject) -> tuple[Mapping[str, Any] | None, str]:
    """The newest evidence of the measured workload, and why there is none."""
    if subject.profile is None:
        return None, "no profile"
    if not subject.stored:
        return None, "the profile holds no evidence yet; write some: spectui profiles save NAME --from RUN"
    for entry in subject.stored:
        workload = entry.get("workload")
        if isinstance(workload, Mapping) and workload.get("name") == subject.workload:
            return entry, ""
    return None, f"the profile holds no result with the workload {subject.workload}"


def held(subject: Subject, name: str) -> tuple[Held | None, str]:
    entry, why = entry_for(subject)
    if entry is None:
        return None, why
    concurrency = subject.measured.concurrency if subject.measured is not None else 1
    rows = [row for row in results_of(entry) if row.get("concurrency") == concurrency]
    known = {str(row.get("pass")): kept for row in rows if (kept := stored_figure(row, name)) is not None}
    if not known:
        return None, f"the profile holds no {name.replace('_', ' ')} at concurrency {concurrency} with an interval"
    if not subject.stateful:
        pass_name = "warm" if "warm" in known else next(iter(known))
        return Held(known[pass_name], pass_name), ""
    if subject.fed:
        return (Held(known["warm"], "warm"), "") if "warm" in known else (None, "the profile holds no warm result")
    if subject.store_empty:
        if "cold" not in known:
            return None, "after a restart the store is empty and the profile holds no cold result; feed it with --feed"
        first = next((row for row in rows if row.get("pass") == "cold"), {})
        return Held(_first(subject, first, name) or known["cold"], "cold"), ""
    if len(known) < 2:
        has = "has already learned" if subject.store_empty is False else "may have learned"
        return None, f"the store {has} from others, which is neither cold nor fed; feed it with --feed"
    return Held(known["cold"], "cold", known["warm"]), ""


def _first(subject: Subject, row: Mapping[str, Any], name: str) -> Figure | None:
    """Of the first prompts only, where that is what was measured: a store fills while a cold pass goes on."""
    count = row.get("first")
    if subject.measured is None or count != len(subject.measured.good):
        return None
    return stored_figure({name: row.get(f"{name}_first"), "requests": count}, name)


@dataclass(frozen=True, slots=True)
class Compared:
    """A measured figure held against the stored one, with the words for both."""

    new: Figure
    agreement: Agreement
    held: Held
    value: str
    expected: str
    how: str
    """The shift in percent, and which one could be seen."""


def compare(subject: Subject, name: str, unit: str) -> Finding | Compared:
    """A finding where nothing can be compared."""
    measured = subject.measured
    assert measured is not None
    new = figure(measured.good, name, speculative=measured.speculative)
    value = "n/a" if new is None else f"{new.value:.2f}{unit} ({new.low:.2f} to {new.high:.2f})"
    if subject.speculation_left_out:
        return not_checked("the server runs without speculation, see the probe on speculation", value=value)
    found, why = held(subject, name)
    if found is None:
        return not_checked(why, value=value, expected=_published(subject) if name == "accept_length" else "")
    expected = spoken(found, unit)
    if new is None:
        return not_checked("too few requests tell it", value=value, expected=expected)
    if subject.stateful and subject.reused:
        share = subject.reused / max(1, measured.requests)
        if share > 0.2:
            reason = (
                f"{subject.reused} of {measured.requests} prompts were sent to this server by an earlier check, so the "
                "store may know their answers"
            )
            step = "Restart or flush the server, or give another --workload"
            return not_checked(reason, value=value, expected=expected, step=step)
    records = subject.stored_records.get(found.pass_name, ()) if found.top is None else ()
    result = agree(name, measured.good, found.figure, records, speculative=measured.speculative)
    if result is None:
        return not_checked("too few requests tell it", value=value, expected=expected)
    how = (
        f"{100 * (result.ratio - 1):+.0f} % {result.how}; a shift below {100 * result.resolution:.0f} % cannot be seen"
    )
    return Compared(new, result, found, value, expected, how)


def _published(subject: Subject) -> str:
    """What others have published for this pair of model and draft: worth a look, and no measure of this server."""
    for entry in subject.profile.evidence if subject.profile is not None else ():
        kept = entry.get("accept_length")
        if entry.get("kind") == "public" and isinstance(kept, list) and _two_numbers(kept):
            ends = " to ".join(dict.fromkeys(f"{float(x):.2f}" for x in kept))
            return f"others have published {ends}: {entry.get('source')}; {entry.get('setting')}"
    return ""


def _two_numbers(kept: list[Any]) -> bool:
    return len(kept) == 2 and all(isinstance(x, (int, float)) for x in kept)


def spoken(found: Held, unit: str) -> str:
    one = found.figure
    if found.top is not None:
        return f"{one.low:.2f}{unit} (cold) to {found.top.high:.2f}{unit} (warm)"
    return f"{one.value:.2f}{unit} ({one.low:.2f} to {one.high:.2f}, {found.pass_name} pass)"
