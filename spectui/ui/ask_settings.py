"""Every setting of an algorithm in a form that is made from what the algorithm declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spectui import algorithms
from spectui.session import SessionError, serving, staging
from spectui.ui.screens.form import Field, FormScreen, Said

if TYPE_CHECKING:
    from spectui.core.settings import Algorithm
    from spectui.session.live_arm import LiveArm
    from spectui.ui.app import SpectuiApp

METRICS = "metrics"


def ask_settings(app: SpectuiApp) -> None:
    """Opens the form for the arm in focus; what is accepted is staged."""
    arm = app.live.focused
    try:
        here = staging.ground(arm)
    except SessionError as error:
        app.show_error(error)
        return
    algorithm = algorithms.for_name(here.speculative.algorithm)
    fields = [*knob_fields(algorithm, here.speculative.knobs), *metrics_field(arm)]
    if not fields:
        app.tell("without speculation there is nothing to set: n chooses an algorithm")
        return

    def read(texts: Mapping[str, str]) -> dict[str, Any]:
        return {knob.key: knob.read(texts.get(knob.key, "")) for knob in algorithm.knobs}

    def check(texts: Mapping[str, str]) -> list[Said]:
        try:
            profile = serving.with_settings(here, algorithm.name, read(texts))
            plan = serving.plan_for(profile, arm.version)
        except ValueError as error:
            return [(str(error), "bad")]
        said: list[Said] = [(finding.text, "bad") for finding in plan.refusals]
        said += [(f.text, "warn") for f in (*plan.dangers, *plan.warnings)]
        return said + [(f"{r.title}: {r.in_force}, {r.by_text}", "") for r in plan.rows if r.changed]

    def ended(texts: dict[str, str] | None) -> None:
        if texts is not None:
            knobs, metrics = read(texts), texts.get(METRICS) == "on"
            app.in_background("stage", lambda: app.live.stage_knobs(knobs, metrics=metrics))

    app.push_screen(FormScreen(f"{arm.letter}: {algorithm.name}, {algorithm.title}", fields, check=check), ended)


def knob_fields(algorithm: Algorithm, knobs: Mapping[str, Any]) -> list[Field]:
    """A field a knob, plain ones first."""
    return [
        Field(
            knob.key,
            f"{knob.title}{f' ({knob.unit})' if knob.unit and knob.unit not in knob.title else ''}",
            as_text(knobs.get(knob.key)),
            ("", *knob.choices) if knob.kind == "choice" else ("", "true", "false") if knob.kind == "flag" else (),
            knob.help,
            as_text(knob.default) or "left to the server",
        )
        for knob in sorted(algorithm.knobs, key=lambda k: k.advanced)
    ]


def metrics_field(arm: LiveArm) -> list[Field]:
    """Where the server was started without ``--enable-metrics``: a tick for the next relaunch."""
    if not arm.idle.metrics_off:
        return []
    about = "/metrics at the next relaunch: live gauges, and counters that check our own count"
    return [Field(METRICS, "--enable-metrics", "off", ("off", "on"), about)]


def as_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)
