"""The screen as it stands, as an SVG file: redacted once more, since it is made to be passed on."""

from __future__ import annotations

import html
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from spectui.core.redact import redact
from spectui.store import locations
from spectui.store.runs import write_whole

if TYPE_CHECKING:
    from spectui.ui.app import SpectuiApp

_TEXT = re.compile(r"(<text\b[^>]*>)([^<]*)(</text>)")
_ROW = re.compile(r"line-(\d+)")


def save(app: SpectuiApp) -> Path:
    """Writes what is seen into the data folder, mode 0600. Raises OSError where that cannot be."""
    svg = without_keys(app.export_screenshot(title="spectui", simplify=True))
    folder = locations.data_dir() / "pictures"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{app.where or 'screen'}-{time.strftime('%Y%m%d-%H%M%S')}.svg"
    write_whole(path, svg.encode("utf-8"))
    return path


def without_keys(svg: str) -> str:
    """The drawing with keys hidden. A line of the screen is several texts: a key is looked for in the whole line, and
    where there is one, each of its texts that holds a part of it is hidden."""
    rows: dict[str, list[re.Match[str]]] = {}
    for found in _TEXT.finditer(svg):
        row = _ROW.search(found[1])
        rows.setdefault(row[1] if row else found[1], []).append(found)
    hidden: dict[int, str] = {}
    for parts in rows.values():
        texts = [html.unescape(part[2]).replace("\xa0", " ") for part in parts]
        line = "".join(texts)
        clean = redact(line)
        if clean == line:
            continue
        for part, text in zip(parts, texts, strict=True):
            if text.strip() and text not in clean:
                hidden[part.start()] = html.escape(_as_long(redact(text), text)).replace(" ", "&#160;")
    return _TEXT.sub(lambda found: f"{found[1]}{hidden.get(found.start(), found[2])}{found[3]}", svg)


def _as_long(clean: str, text: str) -> str:
    """A text that is hidden only by what stands before it on its line is hidden whole."""
    shown = clean if clean != text else "<hidden>"
    return shown[: len(text)].ljust(len(text))
