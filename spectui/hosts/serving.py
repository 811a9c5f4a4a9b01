"""Health and serving are two things: a server can answer 200 with a dead scheduler behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

READY = "ready"
SUSPECT = "suspect"
NOT_SERVING = "not serving"
STARTING = "starting"
NOT_REACHABLE = "not reachable"

SILENT_AFTER_S = 20.0
PROBE_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class Poll:
    t: float
    health: int | None
    """HTTP status of the health route; None when nothing answered."""
    running: int | None = None
    tokens_total: float | None = None
    """Counter of generated tokens, of this server's life."""
    probe: str | None = None
    """Outcome of a one-token request at this poll: ok, timeout, refused …; None when none was made."""


@dataclass(frozen=True, slots=True)
class Serving:
    health: str
    serves: str
    since: float
    """Time of the poll at which it came into this state."""


def states(polls: Iterable[Poll]) -> list[Serving]:
    """The state at each poll, in order of time.

    *Suspect*: requests run and no token came for 20 s. *Not serving*: a one-token request failed; only a token, of
    that or any other request, ends it. With no request running, health 200 stays *ready*.
    """
    out: list[Serving] = []
    moved_at: float | None = None
    last_tokens: float | None = None
    failed = was_idle = False
    for poll in polls:
        grew = poll.tokens_total is not None and last_tokens is not None and poll.tokens_total != last_tokens
        idle = poll.running == 0
        if grew or poll.probe == "ok" or moved_at is None or idle or was_idle:
            moved_at = poll.t  # requests that begin after a pause have their own 20 s
        was_idle = idle
        if poll.tokens_total is not None:
            last_tokens = poll.tokens_total
        if poll.probe is not None and poll.probe != "ok":
            failed = True
        elif grew or poll.probe == "ok":
            failed = False
        if poll.health is None:
            name = NOT_REACHABLE
        elif failed:
            name = NOT_SERVING
        elif poll.health == 503:
            name = STARTING
        elif poll.health != 200:
            name = NOT_SERVING
        elif poll.running and poll.tokens_total is not None and poll.t - moved_at >= SILENT_AFTER_S:
            name = SUSPECT
        else:
            name = READY
        since = out[-1].since if out and out[-1].serves == name else poll.t
        out.append(Serving("no answer" if poll.health is None else str(poll.health), name, since))
    return out


def probe_due(polls: Sequence[Poll], now: float, *, allowed: bool = True, every_s: float = PROBE_EVERY_S) -> bool:
    """Whether to ask for one token now: at most once in 60 s, never while tokens flow, at once when suspect."""
    if not allowed or not polls or polls[-1].health is None:
        return False
    last = max((p.t for p in polls if p.probe is not None), default=None)
    state = states(polls)[-1].serves
    if state == SUSPECT:
        return last is None or now - last >= 10.0
    if state == STARTING or polls[-1].running:
        return False
    return last is None or now - last >= every_s
