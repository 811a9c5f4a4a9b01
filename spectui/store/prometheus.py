"""The last checks in Prometheus' text format, for the textfile collector of a node exporter; redacted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spectui.core.redact import redact
from spectui.core.safe import safe_text

_PREFIX = "spectui_check"


def prometheus(checks: Mapping[str, Mapping[str, Any]]) -> str:
    """The last check of each target in Prometheus' text format, for a textfile collector."""
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    registry = CollectorRegistry()
    labels = ["target", "profile"]
    good = Gauge(f"{_PREFIX}_ok", "1 when everything that was checked is good", labels, registry=registry)
    reachable = Gauge(f"{_PREFIX}_reachable", "1 when the server answered", labels, registry=registry)
    when = Gauge(f"{_PREFIX}_timestamp_seconds", "When the check began", labels, registry=registry)
    took = Gauge(f"{_PREFIX}_duration_seconds", "How long the check took", labels, registry=registry)
    probe = Gauge(
        f"{_PREFIX}_probe_ok", "1 good, 0 not good; absent: not checked", [*labels, "probe"], registry=registry
    )
    figures = {
        "accept_length": Gauge(f"{_PREFIX}_accept_length", "Decode tokens per verify step", labels, registry=registry),
        "step_time_ms": Gauge(f"{_PREFIX}_step_seconds", "Time of a verify step", labels, registry=registry),
        "output_tokens_per_s": Gauge(
            f"{_PREFIX}_output_tokens_per_second", "Of the measured requests", labels, registry=registry
        ),
    }
    for target, checked in checks.items():
        named = [redact(safe_text(target, 200)), redact(safe_text(str(checked.get("profile") or ""), 200))]
        good.labels(*named).set(1 if checked.get("ok") else 0)
        reachable.labels(*named).set(1 if checked.get("reachable") else 0)
        when.labels(*named).set(_float(checked.get("when")))
        took.labels(*named).set(_float(checked.get("seconds")))
        for row in checked.get("probes") or ():
            if isinstance(row, Mapping) and isinstance(row.get("ok"), bool):
                probe.labels(*named, safe_text(str(row.get("name")), 60)).set(1 if row["ok"] else 0)
        for name, gauge in figures.items():
            value = checked.get(name)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                gauge.labels(*named).set(value / 1000 if name == "step_time_ms" else value)
    text = generate_latest(registry).decode("utf-8")
    return redact(text)


def _float(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0
