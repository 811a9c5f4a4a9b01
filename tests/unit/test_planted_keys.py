"""A key in every place where one can stand, and every way out: none of them leaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from spectui.core.launch_line import launch_arguments
from spectui.core.profile import Profile, ServerPart, SpeculativePart
from spectui.core.result import fold
from spectui.store import export, profile_report, report
from spectui.store.prometheus import prometheus

KEY = "PLANTED7x9Qz"
"""Of no well-known shape: only the place gives it away."""


def entry() -> dict[str, Any]:
    return {
        "date": "2026-01-02",
        "run": "r",
        "sglang": "0.5.15",
        "model": {"path": f"https://{KEY}@hub.example/m"},
        "settings_in_force": {"draft_model_path": f"https://hub.example/d?token={KEY}", "api_key": KEY},
        "server": {"admin_api_key": KEY, "launch": ["--api-key", KEY, f"--admin-api-key={KEY}"]},
        "marks": [f"Authorization: Bearer {KEY}"],
        "workload": {"name": f"http://u:{KEY}@h/prompts", "hash": "a"},
        "greedy": [{"prompt": "p", "text": f"export HF_TOKEN={KEY}"}],
        "result": [{"pass": "warm", "concurrency": 1, "requests": 8, "output_tokens_per_s": [90.0, 80.0, 100.0],
                    "route": f"http://h/generate?api_key={KEY}"}],
    }  # fmt: skip


COMMANDS = (
    f"docker run -e HF_TOKEN={KEY} --env API_KEY={KEY} img {{args}}",
    f"sshpass -p {KEY} ssh me@node python -m sglang.launch_server {{args}}",
    f"env OPENAI_API_KEY={KEY} http_proxy=http://me:{KEY}@proxy:1 python -m sglang.launch_server {{args}}",
    ("bash", "-c", f"curl -H 'Authorization: Bearer {KEY}' http://h; exec sglang {{args}} --api-key {KEY}"),
)


def profile(command: Any) -> Profile:
    return Profile(
        f"p https://u:{KEY}@h",
        notes=f"started with --api-key {KEY}, see https://h/?sig={KEY}",
        server=ServerPart(
            command=command,
            cwd="/srv",
            env={"HF_TOKEN": KEY, "MYSQL_PWD": KEY, "ENDPOINT": f"https://h/?access_token={KEY}",
                 "HEADERS": f'{{"X-Api-Key": "{KEY}"}}', "NETRC": f"https://{KEY}@h"},
            model_path="/m",
            args={"hf_token": KEY, "tokenizer_path": f"https://u:{KEY}@h/t", "api_key": KEY,
                  "extra_headers": f"Cookie: session={KEY}", "json_model_override_args": {"auth": {"api_key": KEY}}},
        ),
        speculative=SpeculativePart("EAGLE3", {"draft_model_path": f"https://h/d?key={KEY}", "num_draft_tokens": 4}),
        workload={"file": f"https://h/w?token={KEY}"},
        evidence=(entry(), {"kind": "public", "source": f"https://h/card?token={KEY}", "accept_length": [1.0, 2.0]}),
    )  # fmt: skip


def rows() -> list[dict[str, Any]]:
    arm = {"name": "A", "url": f"http://u:{KEY}@s:1/?api_key={KEY}", "label": f"https://{KEY}@s", "algorithm": "EAGLE3",
           "version": "0.5.15", "model": f"https://h/m?token={KEY}", "route": "x",
           "settings_in_force": {"num_draft_tokens": 4, "api_key": KEY, "note": f"password={KEY}"},
           "server": {"admin_api_key": KEY, "launch": f"--api-key {KEY} --x"}}  # fmt: skip
    head = {"t": 1.0, "kind": "head", "schema": 1, "run_id": "run", "arms": [arm], "max_tokens": 64,
            "temperature": 0.0, "workload": {"name": f"http://u:{KEY}@h/w", "hash": "a"},
            "node": {"driver": "570", "environment": {"HF_TOKEN": KEY}, "gpus": [{"name": "H200"}]}}  # fmt: skip
    ok = {"t": 3.0, "kind": "request", "index": 0, "prompt_id": "p", "group": "g", "arm": "A", "pass_name": "warm",
          "phase": "measure", "concurrency": 1, "block": 0, "rid": "1", "start_s": 1.0, "first_s": 1.1, "last_s": 1.5,
          "end_s": 1.5, "status": "ok", "completion_tokens": 41, "verify_steps": 20}  # fmt: skip
    bad = {**ok, "index": 1, "rid": "2", "status": "failed", "error": f"401 for Authorization: token {KEY}"}
    mark = {"t": 1.5, "kind": "mark", "arm": "A", "name": "odd", "detail": f"Set-Cookie: a={KEY}"}
    return [head, mark, ok, bad, {"t": 9.0, "kind": "end", "status": "complete", "reason": f"token={KEY}"}]


def checks() -> dict[str, Any]:
    target = f"https://u:{KEY}@h:1/?api_key={KEY}"
    return {target: {"ok": False, "reachable": True, "profile": f"https://{KEY}@h", "when": 5.0, "seconds": 2.0,
                     "probes": [{"name": f"api_key={KEY}", "ok": True}]}}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", export.KINDS)
def test_launches(kind: str, command: Any) -> None:
    about = profile(command)
    flags = {"num_draft_tokens": "--speculative-num-draft-tokens", "draft_model_path": "--speculative-draft-model-path"}
    text = export.export(about, launch_arguments(about, flags), kind)
    assert "--speculative-num-draft-tokens" in text
    assert KEY.lower() not in text.lower()


REPORTS: list[tuple[str, Callable[[], str]]] = [
    ("profile as Markdown", lambda: profile_report.profile_markdown(profile(COMMANDS[3]))),
    ("profile as CSV", lambda: profile_report.profile_csv(profile(COMMANDS[3]))),
    ("profile as JSON", lambda: profile_report.profile_json(profile(COMMANDS[0]))),
    (
        "run as Markdown",
        lambda: report.run_markdown(fold(rows()), "run", {"note": f"api_key: {KEY}", "tags": [KEY[:0]]}),
    ),
    ("run as CSV", lambda: report.run_csv(fold(rows()), "run")),
    ("run as JSON", lambda: report.run_as_json(fold(rows()), "run")),
    ("last checks for Prometheus", lambda: prometheus(checks())),
]


@pytest.mark.parametrize(("name", "make"), REPORTS, ids=[name for name, _ in REPORTS])
def test_reports(name: str, make: Callable[[], str]) -> None:
    text = make()
    assert len(text) > 50
    assert KEY.lower() not in text.lower()
    if name.endswith("JSON"):
        json.loads(text)
