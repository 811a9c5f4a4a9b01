"""Are the settings that the profile asks for in force?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spectui import algorithms
from spectui.checks._probe import Finding, Probe, not_checked
from spectui.checks._subject import Subject
from spectui.engines.sglang.info import algorithm_matches
from spectui.store import model_files

_PATHS = ("model_path", "draft_model_path")
_THRESHOLDS = ("accept_threshold_single", "accept_threshold_acc")
_OF_NO_RESULT = {"host", "port", "api_key", "admin_api_key", "nccl_port", "log_level"}
"""Arguments that say where a server is, not what it does."""


def run(subject: Subject) -> Finding:
    assert subject.info is not None
    assert subject.profile is not None
    if subject.speculation_left_out:
        return not_checked("the server runs without speculation, see the probe on speculation")
    rows = _speculative(subject) + _server(subject) + _files(subject)
    wrong = [row for row in rows if not row["ok"]]
    value = "as asked" if not wrong else "; ".join(f"{r['key']} {_word(r['in_force'])}" for r in wrong)
    expected = "; ".join(f"{r['key']} {_word(r['expected'])}" for r in wrong) or f"{len(rows)} settings"
    changed = [r for r in rows if r["ok"] and r["asked"] != r["in_force"]]
    detail = "; ".join(f"{r['key']}: asked {_word(r['asked'])}, in force {_word(r['in_force'])}" for r in wrong)
    if changed:
        kept = "; ".join(
            f"{r['key']}: asked {_word(r['asked'])}, in force {_word(r['in_force'])}, {r['by']}" for r in changed
        )
        detail = f"{detail}. As this version does: {kept}" if detail else f"as this version does: {kept}"
    step = (
        "Look for another profile, an edited start script or an old process on this port; then relaunch"
        if wrong
        else ""
    )
    if wrong and all(row["key"] in _THRESHOLDS for row in wrong):
        step = (
            "Its answers are not the model's own: spectui hot URL --threshold-single 1 --threshold-acc 1, or relaunch"
        )
    return Finding(not wrong, value, expected, detail or f"{len(rows)} settings are as asked", step, tuple(rows))


def _speculative(subject: Subject) -> list[dict[str, Any]]:
    info, profile = subject.info, subject.profile
    assert info is not None
    assert profile is not None
    asked = profile.speculative
    model, draft = info.model_path or None, info.settings.get("draft_model_path")
    match = algorithm_matches(asked.algorithm, info.reported_algorithm, str(draft) if draft else None, model)
    rows = [
        {
            "key": "algorithm",
            "asked": asked.algorithm,
            "expected": asked.algorithm,
            "in_force": match.shown if match.ok else info.algorithm,
            "by": "you",
            "ok": match.ok,
        }
    ]
    if rows[0]["ok"]:
        rows[0]["asked"] = rows[0]["in_force"]
    if asked.algorithm == "none":
        return rows
    target, drafted = (model_files.read_config(path if isinstance(path, str) else None) for path in (model, draft))
    plan = algorithms.resolve(
        asked.algorithm,
        asked.knobs,
        profile.server.arguments(),
        info.version or None,
        model=model_files.facts(target, drafted),
        env=profile.server.env,
    )
    for row in plan.rows:
        if row.part != "speculative" or row.asked is None:
            continue
        real = info.settings.get(row.key)
        if real is None:
            continue  # not shown by this version
        wanted = row.in_force if row.in_force is not None else row.asked
        good = _same(real, wanted) or _same(real, row.asked) or (row.key in _PATHS and _same_path(real, wanted))
        rows.append(
            {
                "key": row.key,
                "asked": row.asked,
                "expected": wanted,
                "in_force": real,
                "by": row.by_text if good else "something else",
                "ok": good,
            }
        )
    return rows + _loosened(info.settings, asked.knobs)


def _loosened(real: Mapping[str, Any], asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Thresholds that nobody asked to be lossy: they are set while a server runs, and no start script shows them."""
    rows = []
    for key in _THRESHOLDS:
        value = real.get(key)
        if key not in asked and isinstance(value, (int, float)) and value < 1.0:
            rows.append(
                {"key": key, "asked": 1.0, "expected": 1.0, "in_force": value, "by": "something else", "ok": False}
            )
    return rows


def _server(subject: Subject) -> list[dict[str, Any]]:
    info, profile = subject.info, subject.profile
    assert info is not None
    assert profile is not None
    rows = []
    for key, asked in profile.server.arguments().items():
        if key in _OF_NO_RESULT or key.startswith("sim_") or key == "sglang_version":
            continue
        real = _in_force(info.server, info.raw, key)
        if key == "model_path" and info.model_path:
            real = info.model_path
        if real is None or isinstance(asked, (dict, list)):
            continue
        good = _same(real, asked) or (key in _PATHS and _same_path(real, asked))
        rows.append(
            {
                "key": key,
                "asked": asked,
                "expected": asked,
                "in_force": real,
                "by": "you" if good else "something else",
                "ok": good,
            }
        )
    return rows


def _files(subject: Subject) -> list[dict[str, Any]]:
    """Model and draft under the same path as ever: is it the same ``config.json`` and revision as when measured?"""
    assert subject.info is not None
    now = {"model": subject.info.model_path, "draft": str(subject.info.settings.get("draft_model_path") or "")}
    rows = []
    for part, path in now.items():
        then = next((kept for entry in subject.stored if isinstance(kept := entry.get(part), Mapping)), {})
        found = model_files.identity(path or "", cached=subject.server is not None) or {}
        if not found or not _same_path(then.get("path"), path):
            continue
        for key in ("config_hash", "revision"):
            if then.get(key) and found.get(key):
                good = then[key] == found[key]
                rows.append(
                    {
                        "key": f"{part} {key}",
                        "asked": then[key],
                        "expected": then[key],
                        "in_force": found[key],
                        "by": "you" if good else "something else",
                        "ok": good,
                    }
                )
    return rows


def _in_force(server: Mapping[str, Any], raw: Mapping[str, Any], key: str) -> Any:
    value = server.get(key)
    return raw.get(key) if value is None else value


def _same(a: object, b: object) -> bool:
    if a == b:
        return True
    try:
        return abs(float(str(a)) - float(str(b))) < 1e-9
    except ValueError:
        return str(a).strip().lower() == str(b).strip().lower()


def _same_path(a: object, b: object) -> bool:
    return str(a).rstrip("/") == str(b).rstrip("/")


def _word(value: object) -> str:
    return "unset" if value is None else str(value)


PROBE = Probe(
    "settings",
    "Are the settings of the profile in force?",
    "A start script that was edited, or an old process on the port, serves other settings under the same address.",
    run,
    order=30,
    needs=("info", "profile"),
)
