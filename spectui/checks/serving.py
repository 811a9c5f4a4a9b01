"""Does it really generate? A port that answers and a health of 200 prove nothing: both survive a dead scheduler."""

from __future__ import annotations

from spectui.checks._probe import Finding, Probe
from spectui.checks._subject import Subject
from spectui.engines.sglang.errors import Refused, Unauthorized


def run(subject: Subject) -> Finding:
    health = subject.health
    spoken = str(health) if isinstance(health, int) else "not asked" if health is None else "no answer"
    token = subject.token
    expected = "health 200 and a generated token"
    if token is not None and not isinstance(token, Exception):
        value = f"health {spoken}, serves: a token in {token.seconds:.2f} s"
        if isinstance(health, int) and health != 200:
            step = "Look whether it is draining or shutting down; a load balancer will take no notice of the tokens"
            return Finding(False, value, expected, f"it generates although its health route says {health}", step)
        return Finding(True, value, expected, "a token came")
    value = f"health {spoken}, serves: no"
    if isinstance(token, (Unauthorized, Refused)):
        detail, step = _what(token), token.next or "Give its key with --key env:NAME or file:PATH"
    elif health == 200:
        detail = f"health answers 200 and no token comes: {_what(token)}"
        step = "The scheduler is dead or hangs: read the server's log, then restart it. Do not trust its health route"
    elif health == 503:
        detail, step = f"it is still starting or ends: {_what(token)}", "Wait for it with --wait, or read its log"
    else:
        detail, step = _what(token), "Read the server's log"
    return Finding(False, value, expected, detail, step)


def _what(error: object) -> str:
    return str(getattr(error, "what", "") or error or "no token was asked for")


PROBE = Probe(
    "serving",
    "Is it reachable, and does it really generate?",
    "A server can answer health checks with 200 while nothing is served.",
    run,
    order=10,
    needs=(),
)
