"""The check after a restart: gathers, measures a little with prompts that were not sent before, and asks the probes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spectui import checks
from spectui.checks import Finding, Probe, Subject, _drift, _gather
from spectui.checks._rotation import Rotation
from spectui.core.profile import Profile
from spectui.core.rows import Row
from spectui.core.spec import Prompt
from spectui.engines.sglang.address import read_key
from spectui.engines.sglang.client import SglangClient
from spectui.engines.sglang.errors import NotReachable, NotSglang, StillStarting
from spectui.session import SessionError, arms, check_run, keeping_evidence
from spectui.session.check_run import DEFAULTS, CheckOptions, Target
from spectui.store import locations, profiles
from spectui.store.profile_report import own


@dataclass(frozen=True, slots=True)
class Checked:
    """The outcome. ``exit_code``: 0 good, 1 not good, 3 not reachable."""

    target: str
    url: str
    profile: str | None
    found: tuple[tuple[Probe, Finding], ...]
    reachable: bool = True
    seconds: float = 0.0
    simulated: bool = False
    folder: str = ""
    notes: tuple[str, ...] = ()
    when: float = 0.0
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.reachable and all(finding.ok is not False for _, finding in self.found)

    @property
    def exit_code(self) -> int:
        return 3 if not self.reachable else 0 if self.ok else 1

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "reachable": self.reachable,
            "target": self.target,
            "url": self.url,
            "profile": self.profile,
            "simulated": self.simulated,
            "when": self.when,
            "seconds": round(self.seconds, 3),
            "run": self.folder,
            "notes": list(self.notes),
            **dict(self.figures),
            "probes": [
                {
                    "name": probe.name,
                    "ok": finding.ok,
                    "value": finding.value,
                    "expected": finding.expected,
                    "detail": finding.detail,
                    "why": probe.why,
                    "next": finding.next,
                    "rows": [dict(row) for row in finding.rows],
                }
                for probe, finding in self.found
            ],
        }


def target_of(text: str, options: CheckOptions = DEFAULTS) -> Target:
    """What to check. A profile whose server spectui runs is checked where that server is."""
    from spectui.hosts import records, servers

    try:
        named = arms.resolve(text)
    except SessionError:
        if "://" not in text and ("/" in text or text.endswith(".toml")):
            profiles.load(text)  # says what is wrong with this path
        raise
    if named.run is not None:
        raise SessionError(f"{text} is a stored run; check a server or a profile", 2)
    live = [record for record in servers.records() if records.alive(record)]
    profile = None
    url = named.url
    if named.profile is not None:
        profile = profiles.load(named.profile)
        mine = [record for record in live if _same_file(keeping_evidence.profile_path(record), named.profile)]
        url = mine[0].url if mine else profile.url
    elif named.server is not None:
        record = next((r for r in servers.records() if r.name == named.server), None)
        path = None if record is None else keeping_evidence.profile_path(record)
        profile = None if path is None else profiles.load(path)
    assert url is not None, "what is neither a run nor a profile has an address"
    key = options.key or (profile.server.api_key if profile else None)
    return Target(text, url, profile, key, options.admin_key or (profile.server.admin_api_key if profile else None))


def _same_file(one: Path | None, other: Path) -> bool:
    return one is not None and one.resolve() == other.resolve()


def wait_until_ready(target: Target, limit_s: float, say: Callable[[str], None] = lambda _text: None) -> bool:
    """Until the server makes a token; False when it did not within ``limit_s``."""
    from spectui.engines.sglang.errors import EngineError

    end = time.monotonic() + limit_s
    with SglangClient(target.url, key=read_key(target.key), admin_key=read_key(target.admin_key)) as client:
        while True:
            try:
                client.generate_one(timeout=10.0)
                return True
            except EngineError as error:
                say(error.what)
            if time.monotonic() >= end:
                return False
            time.sleep(min(1.0, max(0.0, end - time.monotonic())))


def check(
    target: Target,
    options: CheckOptions = DEFAULTS,
    *,
    say: Callable[[str], None] = lambda _text: None,
    on_row: Callable[[Row], None] = lambda _row: None,
    on_probe: Callable[[Probe, Finding], None] = lambda _probe, _finding: None,
) -> Checked:
    """One check. Raises SessionError and WorkloadError for options that make none; a server's state never raises."""
    began, when = time.monotonic(), time.time()
    key, admin = read_key(target.key), read_key(target.admin_key)
    name = target.profile.name if target.profile else None
    with SglangClient(target.url, key=key, admin_key=admin) as client:
        subject = Subject(target.url, target.profile, client, now=when)
        say("asking the server")
        try:
            _gather.reach(subject)
        except (NotReachable, NotSglang) as error:
            return _unreachable(target, name, error, time.monotonic() - began, when)
        if subject.health == 503 and not subject.serves:
            starting = StillStarting("it is still starting, or ends", target.url, "Wait for it: spectui check … --wait")
            return _unreachable(target, name, starting, time.monotonic() - began, when)
        _gather.look_at_node(subject)
        subject.stored = _newest_first(target.profile)
        state = Rotation.load(target.url, target.profile.path if target.profile else None)
        subject.history = tuple(state.history)
        folder = ""
        if subject.serves:
            folder = check_run.measure(subject, target, options, state, say, on_row)
        found = tuple(checks.probe_all(subject, on_probe))
        figures = _figures(subject)
        good = all(finding.ok is not False for _, finding in found)
        ids = [record.prompt_id for record in subject.measured.records] if subject.measured else []
        if subject.serves:
            kept = {key: value for key, value in figures.items() if key != "drift"}
            state.sent(ids, _generated(client), {**kept, "ok": good, "fed": subject.fed})
    checked = Checked(
        target.name,
        target.url,
        name,
        found,
        seconds=time.monotonic() - began,
        simulated=bool(subject.info and subject.info.simulated),
        folder=folder,
        notes=tuple(subject.notes),
        when=when,
        figures=figures,
    )
    remember(checked)
    return checked


def _unreachable(target: Target, name: str | None, error: Exception, seconds: float, when: float) -> Checked:
    probe = next(p for p in checks.catalogue() if p.name == "serving")
    what, step = str(getattr(error, "what", error)), str(getattr(error, "next", ""))
    finding = Finding(False, "not reachable", "health 200 and a generated token", what, step)
    checked = Checked(
        target.name, target.url, name, ((probe, finding),), reachable=False, seconds=seconds, notes=(what,), when=when
    )
    remember(checked)
    return checked


def _newest_first(profile: Profile | None) -> tuple[Mapping[str, Any], ...]:
    entries = own(profile.evidence) if profile is not None else ()
    return tuple(sorted(entries, key=lambda entry: str(entry.get("date") or ""), reverse=True))


def _figures(subject: Subject) -> dict[str, Any]:
    one = subject.measured
    if one is None:
        return {}
    trend = _drift.over(subject, one.accept_length)
    return {
        "algorithm": subject.algorithm,
        "workload": subject.workload,
        "accept_length": one.accept_length,
        "step_time_ms": one.step_time_ms,
        "output_tokens_per_s": one.output_tokens_per_s,
        "verify_steps": one.verify_steps,
        "store_empty": subject.store_empty if subject.stateful else None,
        "drift": None if trend is None else {**trend.as_json(), "text": trend.text},
    }


def _generated(client: SglangClient) -> float | None:
    from spectui.engines.sglang.metrics import MetricsReading

    reading = client.metrics()
    return reading.counters.get("generation_tokens_total", 0.0) if isinstance(reading, MetricsReading) else None


# -- the last check, for exports and screens


def last_path() -> Path:
    return locations.state_dir() / "checks" / "last.json"


def remember(checked: Checked) -> None:
    """Keeps the outcome as the last check of its target; a full disk loses only that."""
    from spectui.hosts.records import write_whole

    try:
        every = last_checks()
        every.pop(checked.target, None)
        every[checked.target] = checked.as_json()
        for name in list(every)[:-50]:
            del every[name]
        last_path().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(last_path(), json.dumps(every))
    except OSError:
        return


def last_checks() -> dict[str, Any]:
    """Target -> outcome as JSON, the newest last."""
    try:
        kept = json.loads(last_path().read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


__all__ = [
    "CheckOptions",
    "Checked",
    "Prompt",
    "Target",
    "check",
    "last_checks",
    "last_path",
    "target_of",
    "wait_until_ready",
]
