"""How an arm stands, in words: its state by name, and what to do next where something is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spectui.engines.sglang.errors import EngineError, NotReachable, StillStarting, Unauthorized
from spectui.hosts.serving import NOT_SERVING, SUSPECT

if TYPE_CHECKING:
    from spectui.session.live_arm import LiveArm


def standing(arm: LiveArm) -> tuple[str, str]:
    """(state, trouble in words; empty when all is well)."""
    if arm.empty:
        return "none", "nothing here yet: o chooses a server, a profile or a stored run"
    if arm.stored is not None:
        return "stored", ""
    if arm.busy:
        state = "stopping" if "stopping" in arm.busy else "starting"
        return state, _starting(arm) if arm.state and state == "starting" else arm.busy
    if arm.failure:
        back = " — u goes back to the last setting that was ready" if arm.ready_before else ""
        return "failed", f"{arm.failure.rstrip('.')}{back}, l shows the log"
    if not arm.live:
        return "not started", f"profile {arm.name}: enter launches it"
    return _server_standing(arm)


def _server_standing(arm: LiveArm) -> tuple[str, str]:
    state = arm.state
    if state is not None and not state.running:
        if state.failure is not None:
            hint = f" {state.failure.hint}" if state.failure.hint else ""
            return "failed", f"failed: {state.failure.cause}.{hint} — l shows the log"
        ended = state.elsewhere or f"its process has ended (exit code {state.exit_code})"
        return "gone", f"{ended} — enter starts it again, l shows the log"
    if state is not None and not state.ready:
        return "starting", _starting(arm)
    if arm.error is not None:
        return _error_standing(arm, arm.error)
    if arm.info is None:
        return "connecting", f"connecting to {arm.url} …"
    if arm.lost_gpus:
        which = ", ".join(map(str, arm.lost_gpus))
        return (
            "GPU lost",
            f"GPU {which} is lost: the driver no longer answers for it (nvidia-smi, dmesg) — l shows the log",
        )
    if arm.serves == SUSPECT:
        return "suspect", "suspect: requests are running and no token came for 20 s — l shows the log"
    if arm.serves == NOT_SERVING:
        return "failed", "not serving: it answers, but a request for one token failed — its scheduler may be dead"
    if drafts := arm.never_accepted:
        return "suspect", f"{drafts} — n and e change it, l shows the log"
    return "ready", arm.simulated_acceptance or _unreadable(arm)


def _unreadable(arm: LiveArm) -> str:
    assert arm.info is not None
    return f"serves, but its settings are {arm.info.unreadable}" if arm.info.unreadable else ""


def _error_standing(arm: LiveArm, error: EngineError) -> tuple[str, str]:
    if isinstance(error, StillStarting):
        return "starting", f"starting: {error.what}"
    if isinstance(error, Unauthorized):
        again = "start spectui with --key env:NAME"
        return "failed", f"{error.what} — {again if arm.key is None else 'is the key right?'}"
    if isinstance(error, NotReachable):
        what = f"died: {arm.died}" if arm.died else f"not there: {error.what}"
        return "gone", f"{what} — o chooses another server"
    return "failed", f"{error.what}. {error.next}".rstrip(". ") + " — o chooses another server"


def _starting(arm: LiveArm) -> str:
    state = arm.state
    if state is None:
        return arm.busy or "starting"
    if state.ready:
        return "starting: it gave a token, its settings are being read"
    if state.stuck:
        return state.stuck
    text = f"starting: {state.phase}"
    if state.progress is not None:
        text += f" {state.progress[0]} of {state.progress[1]}"
    left = arm.left_s
    if left is not None and left <= 0:
        text += f", {state.elapsed_s:.0f} s so far, longer than the last start"
    elif left is not None:
        text += f", about {int(left // 60)}:{int(left % 60):02d} left"
    else:
        text += f", {state.elapsed_s:.0f} s so far"
    return text
