"""The card of one arm: which server, in what state, with which settings, and what its proposer knows."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from textual.content import Content

from spectui.core.braille import Row, Run
from spectui.core.safe import safe_text, to_ascii
from spectui.ui.widgets.lines import Lines, width_of

STATES = {
    "ready": ("●", "good"),
    "connecting": ("○", "warn"),
    "starting": ("○", "warn"),
    "stopping": ("○", "warn"),
    "suspect": ("○", "warn"),
    "failed": ("✗", "bad"),
    "GPU lost": ("✗", "bad"),
    "gone": ("✗", "bad"),
    "stored": ("■", ""),
    "none": ("·", "dim"),
    "not started": ("·", "dim"),
}
"""State -> its sign and style. A state that is not listed shows as a question mark."""

_GAUGE = 12
_STAGES = ("cold", "warming", "fed", "saturated")


class Setting(NamedTuple):
    label: str
    value: str
    staged: str | None = None
    """What is staged in its place, not yet in force."""


class Store(NamedTuple):
    """What a stateful proposer knows."""

    state: str
    """cold, warming, fed, saturated or unknown: the proposer's state."""
    level: float | None = None
    """0 to 1: how far the gauge is filled; None leaves it to the state."""
    detail: str = ""
    """``41k tokens since the flush 2:13 ago``"""


class Start(NamedTuple):
    """A start that is waited for."""

    share: float | None = None
    left_s: float | None = None
    phases: tuple[tuple[str, float | None, float | None], ...] = ()
    """(name, seconds or None while it lasts or is still to come, seconds of last time or None), in order."""
    now: str = ""
    """The phase that goes on."""


class ArmCardData(NamedTuple):
    letter: str
    state: str = "none"
    address: str = ""
    version: str = ""
    simulated: bool = False
    algorithm: str = ""
    staged_algorithm: str | None = None
    settings: tuple[Setting, ...] = ()
    model: tuple[str, ...] = ()
    """Parts of the model's line: name, ``tp 4``, ``GPUs 0–3``, ``48 running at most (set by the server)`` …"""
    store: Store | None = None
    stateless: str = "draft has no state"
    """Said where there is no store."""
    idle: str = ""
    """What an idle server says of itself."""
    start: Start | None = None
    """While it starts: its phases take the place of model and store."""
    trouble: str | None = None
    """One sentence that takes the second line's place: why it is not ready, and what helps."""
    focused: bool = False


class ArmCard(Lines):
    """``show(data)``. Four rows with the title in the border; ``compact``: everything on one line."""

    DEFAULT_CSS = """
    ArmCard { height: auto; }
    """

    def __init__(
        self,
        *,
        compact: bool = False,
        form: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(form=form, id=id, classes=classes)
        self.compact = compact
        self._data = ArmCardData("A")
        self._titled: str | None = None

    def show(self, data: ArmCardData) -> None:
        self._data = data
        title = "".join(run.text for run in title_row(data))
        title = to_ascii(title) if self.is_attached and self.form == "ascii" else title
        if title != self._titled:
            self._titled = title
            self.border_title = Content(title)
        self.set_class(data.focused, "-focused")
        self.redraw()

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return 1 if self.compact else 3 + (not self._bordered)

    @property
    def _bordered(self) -> bool:
        return self.styles.border_top[0] not in ("", "none", "hidden")

    def rows(self, width: int, height: int) -> Sequence[Row]:
        if self.compact or height == 1:
            return (compact_row(self._data, width),)
        rows = card_rows(self._data, width)
        return rows if self._bordered else [title_row(self._data), *rows]


def title_row(data: ArmCardData) -> Row:
    """``A ● ready  simulated  127.0.0.1:30000  SGLang 0.5.15``"""
    sign, tag = STATES.get(data.state, ("?", "warn"))
    words = [safe_text(word, 60) for word in (data.address, data.version) if word]
    row = [
        Run(f"{data.letter} ", data.letter.lower()),
        Run(f"{sign} {safe_text('empty' if data.state == 'none' else data.state, 20)}", tag),
    ]
    if data.simulated:  # before what a narrow card cuts
        row.append(Run("  simulated", "warn"))
    if words:
        row.append(Run("  " + "  ".join(words)))
    return tuple(row)


def card_rows(data: ArmCardData, width: int) -> list[Row]:
    """Settings or trouble, model, store. Trouble comes in the place of the settings, the first thing that is read. A
    start shows what is started, how far it is, and its phases."""
    third = _joined([safe_text(part, 80) for part in data.model], width)
    if not data.trouble:
        return [settings_row(data, width), (Run(third),), _store_row(data, width)]
    if data.start is not None:
        return [*_wrapped_trouble(data, width, 1), settings_row(data, width), phases_row(data.start, width)]
    said = _wrapped_trouble(data, width, 2)
    return [*said, *[(Run(third),), _store_row(data, width)][len(said) - 1 :]]


def phases_row(start: Start, width: int) -> Row:
    """``48 %  weights 21 s · graph capture 11 of 31 s · warm-up 4 s``: done, now and to come apart."""
    row: list[Run] = []
    if start.share is not None:
        row.append(Run(f"{100 * start.share:.0f} %  "))
    current = next((name for name, seconds, _ in start.phases if seconds is None), None)
    parts: list[Run] = []
    for name, seconds, last in start.phases:
        word = safe_text(name, 20)
        if seconds is not None:
            parts.append(Run(f"{word} {_seconds(seconds)}", "good"))
        elif name == current:
            parts.append(Run(f"▸ {word}{f' of {_seconds(last)}' if last is not None else ''}", "strong"))
        else:
            parts.append(Run(f"{word}{f' {_seconds(last)}' if last is not None else ''}", "dim"))
    room = width - width_of(tuple(row))
    while len(parts) > 1 and sum(len(part.text) + 3 for part in parts) - 3 > room:
        # What is over matters least: it makes room for what goes on and what is to come.
        parts.pop(0 if parts[0].tag == "good" else -1)
    for number, part in enumerate(parts):
        row += [Run(" · ", "dim"), part] if number else [part]
    return tuple(row)


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def _wrapped_trouble(data: ArmCardData, width: int, most: int) -> list[Row]:
    sign, tag = STATES.get(data.state, ("?", "warn"))
    text = f"{sign} {safe_text(data.trouble or '', 400)}"
    lines = textwrap.wrap(text, max(1, width), max_lines=most, placeholder=" …", subsequent_indent="  ") or [text]
    return [(Run(line[:width], tag),) for line in lines]


def settings_row(data: ArmCardData, width: int = 1000) -> Row:
    """``NGRAM   draft tokens 8 → 12 staged   trie depth 18``: whole settings only, as many as fit."""
    row = [Run(safe_text(data.algorithm or "no speculation", 30), "strong")]
    if data.staged_algorithm:
        row.append(Run(f" → {safe_text(data.staged_algorithm, 30)} staged", "warn"))
    for setting in data.settings:
        more = [Run(f"   {safe_text(setting.label, 30)} {safe_text(setting.value, 40)}")]
        if setting.staged is not None:
            more.append(Run(f" → {safe_text(setting.staged, 40)} staged", "warn"))
        if width_of((*row, *more)) > width:
            return (*row, Run(" …"[: max(0, width - width_of(tuple(row)))], "dim"))
        row += more
    return tuple(row)


def _joined(parts: Sequence[str], width: int) -> str:
    """As many parts as fit, whole ones only, the first at any rate."""
    text = parts[0] if parts else ""
    for part in parts[1:]:
        if len(text) + 2 + len(part) > width:
            break
        text += f"  {part}"
    return text


def _store_row(data: ArmCardData, width: int) -> Row:
    if data.store is None:
        words = "; ".join(part for part in (data.stateless, data.idle) if part)
        return (Run(safe_text(words, width) if data.state != "none" else "", "dim"),)
    store = data.store
    tone = {"fed": "good", "cold": "warn", "warming": "warn", "saturated": "warn"}.get(store.state, "dim")
    row = [Run("store "), Run(gauge(store), tone), Run(f" {safe_text(store.state, 12)}", tone)]
    row += [Run("   " + safe_text(store.detail, 120))] if store.detail else []
    idle = f"   {safe_text(data.idle, 160)}"
    if data.idle and width_of(tuple(row)) + len(idle) <= width:
        row.append(Run(idle, "dim"))
    return tuple(row)


def gauge(store: Store) -> str:
    """Twelve cells from cold to saturated, darker the fuller: three a stage."""
    if store.state not in _STAGES and store.level is None:
        return "?" * _GAUGE
    level = store.level if store.level is not None else (_STAGES.index(store.state) + 1) / len(_STAGES)
    filled = min(_GAUGE, max(0, round(level * _GAUGE)))
    return ("░░░▒▒▒▓▓▓███"[:filled]).ljust(_GAUGE, "·")


def compact_row(data: ArmCardData, width: int) -> Row:
    """One line: letter, sign, trouble or algorithm with its settings, store, address."""
    sign, tag = STATES.get(data.state, ("?", "warn"))
    here = "▸" if data.focused else " "  # seen without colours, too
    head: list[Run] = [Run(f"{here}{data.letter} ", data.letter.lower()), Run(f"{sign} ", tag)]
    if data.simulated:
        head.append(Run("simulated ", "warn"))
    if data.trouble:
        room = max(0, width - width_of(tuple(head)))
        return (*head, Run(safe_text(data.trouble, room), tag))
    row = [*head, *settings_row(data, width - width_of(tuple(head)))]
    tails = [f"   {safe_text(data.store.state, 12)}" if data.store else "", f"   {safe_text(data.address, 40)}"]
    for tail in tails:
        if tail.strip() and width_of(tuple(row)) + len(tail) <= width:
            row.append(Run(tail, "dim"))
    return tuple(row)
