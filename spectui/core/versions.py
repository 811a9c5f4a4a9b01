"""SGLang releases whose rules are known, and where another release stands between them."""

from __future__ import annotations

import re
from dataclasses import dataclass

Version = tuple[int, int, int]

KNOWN: tuple[Version, ...] = ((0, 4, 9), (0, 5, 5), (0, 5, 10), (0, 5, 12), (0, 5, 15), (0, 5, 23))
"""Releases whose sources were read; post releases count as their release."""

_VERSION = re.compile(r"^\s*v?(\d+)\.(\d+)(?:\.(\d+))?")


def parse(text: str | None) -> Version | None:
    """``0.5.15.post1`` -> (0, 5, 15). None where the text names no version; 0.0.x is an unnumbered checkout."""
    found = _VERSION.match(text or "")
    if not found:
        return None
    major, minor, patch = (int(part[:6]) if part else 0 for part in found.groups())
    return (major, minor, patch) if (major, minor) != (0, 0) else None


def spell(version: Version) -> str:
    return ".".join(str(part) for part in version)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a version stands: its own known release, or the neighbours that it lies between."""

    version: Version | None
    below: Version | None
    above: Version | None

    @property
    def known(self) -> bool:
        return self.version is not None and self.below == self.above

    @property
    def taken(self) -> Version:
        """The release whose rules are taken: the nearest known one.

        Nearest: within the same major.minor by patch number, the older of two at the same distance; else the last
        known one before it, or the first of all. Without a version: the newest.
        """
        if self.version is None:
            return KNOWN[-1]
        version = self.version
        same = [known for known in KNOWN if known[:2] == version[:2]]
        if same:
            return min(same, key=lambda known: (abs(known[2] - version[2]), known))
        return self.below or KNOWN[0]

    @property
    def text(self) -> str:
        """One sentence for the operator; empty for a known release."""
        if self.known:
            return ""
        if self.version is None:
            return f"The SGLang version is not known: the rules of {spell(self.taken)} are taken."
        return f"SGLang {spell(self.version)} is not known to spectui: the rules of {spell(self.taken)} are taken."


def standing(text: str | None) -> Standing:
    version = parse(text)
    if version is None:
        return Standing(None, KNOWN[-1], None)
    below = max((known for known in KNOWN if known <= version), default=None)
    above = min((known for known in KNOWN if known >= version), default=None)
    return Standing(version, below, above)


def within(place: Standing, since: Version | None, until: Version | None) -> bool | None:
    """Does something that holds from ``since`` to ``until`` (both included) hold here? None: not known.

    Between two known releases it is settled when both say the same; outside of them, or before the version was asked,
    only what never changed is settled.
    """

    def at(release: Version) -> bool:
        return (since is None or release >= since) and (until is None or release <= until)

    if place.version is None:
        said = {at(release) for release in KNOWN}
        return said.pop() if len(said) == 1 else None
    if place.below is None or place.above is None:
        edge = place.below or place.above
        assert edge is not None
        if at(edge):
            return None
        gone = until is not None and place.version > until
        early = since is not None and place.version < since
        return False if gone or early else None
    return at(place.below) if at(place.below) == at(place.above) else None
