"""Asked, in force, and changed by whom: what a server will make of settings, before it is started.

Pure: rules come from the algorithm (data), versions from :mod:`spectui.core.versions`. The rules were read in the
sources of the releases named there; where a release is not known, what it would refuse becomes a warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spectui.core import settings as words
from spectui.core.plan_rows import Finding, PlanRow, Resolution, knob_rows, server_rows
from spectui.core.settings import Algorithm, Knob, Rule, Value
from spectui.core.versions import Standing, spell, standing, within

LIMITS = (
    "max_running_requests",
    "mem_fraction_static",
    "cuda_graph_max_bs",
    "cuda_graph_max_bs_decode",
    "cuda_graph_bs",
)
"""What a baseline must have in common with the speculative server it is held against."""


@dataclass(frozen=True, slots=True)
class Plan:
    algorithm: str
    shown: str
    """The name with what the server will call it, where that differs."""
    standing: Standing
    rows: tuple[PlanRow, ...]
    findings: tuple[Finding, ...]

    def _level(self, level: str) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.level == level)

    @property
    def refusals(self) -> tuple[Finding, ...]:
        return self._level("refuse")

    @property
    def dangers(self) -> tuple[Finding, ...]:
        """What the server allows although its output is known to be wrong."""
        return self._level("danger")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        return self._level("warn")

    @property
    def notes(self) -> tuple[Finding, ...]:
        return self._level("note")

    @property
    def verdict(self) -> str:
        """refuse, danger or allow."""
        return "refuse" if self.refusals else "danger" if self.dangers else "allow"

    @property
    def ok(self) -> bool:
        return not self.refusals

    @property
    def in_force(self) -> dict[str, Value]:
        """Neutral knobs as the server will have them; those of the server itself under ``server.``."""
        return {
            row.key if row.part == "speculative" else f"server.{row.key}": row.in_force
            for row in self.rows
            if row.in_force is not None
        }

    def row(self, key: str) -> PlanRow:
        """Raises KeyError for a key that the plan has no row for."""
        for row in self.rows:
            if row.key == key:
                return row
        raise KeyError(key)


def resolve(
    algorithm: Algorithm,
    asked: Mapping[str, Value],
    server: Mapping[str, Value] | None = None,
    version: str | None = None,
    *,
    model: Mapping[str, Value] | None = None,
    env: Mapping[str, str] | None = None,
) -> Plan:
    """What a server of ``version`` makes of these settings.

    ``asked``: neutral knobs; ``server``: arguments of the server by field name (``page_size``; dashes are taken too);
    ``model``: facts of the config files (``architecture``, ``draft_block_size``). What is not given counts as unset.
    Never raises for settings: everything wrong is a finding.
    """
    place = standing(version)
    server = {key.replace("-", "_"): value for key, value in (server or {}).items()}
    asked = {key: value for key, value in asked.items() if value is not None}
    work = Resolution({f"server.{key}": value for key, value in server.items()})
    _derive_server(server, work)
    work.at.update({f"model.{key}": value for key, value in (model or {}).items()})
    work.at.update({f"env.{key}": value for key, value in (env or {}).items()})
    if place.text:
        work.say("warn", "version", place.text)
    if algorithm.error:
        work.say("refuse", "broken", f"{algorithm.name} cannot be used: {algorithm.error}")
    _check_release(algorithm, place, work)
    present = _take_knobs(algorithm, asked, place, work)
    if work.at.get("multi_layer_eagle"):
        work.at["server.enable_multi_layer_eagle"] = True
    work.derive()
    for rule in algorithm.rules:
        _apply(rule, place, work)
    _check_threshold(work)
    rows = [*knob_rows(algorithm, asked, present, place, work), *server_rows(server, work)]
    return Plan(algorithm.name, shown(algorithm), place, tuple(rows), tuple(work.findings))


def _derive_server(server: Mapping[str, Value], work: Resolution) -> None:
    """Facts that releases spell differently, under one name."""
    width = server.get("attn_dp_size")  # 0.5.23's name; before it was a flag
    work.at["server.dp_attention"] = bool(server.get("enable_dp_attention")) or (isinstance(width, int) and width > 1)
    work.at["server.overlap_schedule"] = not server.get("disable_overlap_schedule")
    work.by["server.overlap_schedule"] = "you" if server.get("disable_overlap_schedule") else "default"
    backends = [server.get(f"{part}attention_backend") for part in ("", "prefill_", "decode_")]
    work.at["server.trtllm_mha"] = "trtllm_mha" in backends


def shown(algorithm: Algorithm) -> str:
    if algorithm.reported and algorithm.reported[0] != algorithm.name:
        return f"{algorithm.name} ({algorithm.title}, server calls it {algorithm.reported[0]})"
    return algorithm.name


def _check_release(algorithm: Algorithm, place: Standing, work: Resolution) -> None:
    there = within(place, algorithm.since, algorithm.until)
    first = f"first in {spell(algorithm.since)}" if algorithm.since else ""
    if there is False and place.version is not None:
        work.say(
            "refuse", "release", f"{algorithm.name} is not in this release, SGLang {spell(place.version)} ({first})."
        )
    elif there is None and place.version is not None and algorithm.speculates:
        work.say("warn", "release", f"{algorithm.name} is not known for this version of SGLang.")


def _take_knobs(algorithm: Algorithm, asked: Mapping[str, Value], place: Standing, work: Resolution) -> dict[str, Knob]:
    present: dict[str, Knob] = {}
    for knob in algorithm.knobs:
        there = within(place, knob.since, knob.until)
        value = asked.get(knob.key)
        if value is not None:
            fault = knob.fault(value)
            if fault:
                work.say("refuse", "value", f"{knob.key} {fault}.", [knob.key])
            if there is False:
                since = f"first in {spell(knob.since)}" if knob.since else ""
                until = f"last in {spell(knob.until)}" if knob.until else ""
                span = ", ".join(part for part in (since, until) if part)
                work.say("refuse", "knob release", f"{knob.key} is not in this release of SGLang ({span}).", [knob.key])
            elif there is None and place.version is not None:
                work.say("warn", "knob release", f"{knob.key} is not known for this version of SGLang.", [knob.key])
        if there is False or (there is None and value is None and not _at_taken(knob, place)):
            continue
        present[knob.key] = knob
        if value is not None:
            work.at[knob.key], work.by[knob.key] = value, "you"
        elif knob.default is not None:
            work.at[knob.key], work.by[knob.key] = knob.default, "default"
    for key in asked:
        if algorithm.knob(key) is None and not algorithm.plugin:
            work.say("note", "no such knob", f"{key} is no knob of {algorithm.name}: it is ignored.", [key])
    return present


def _at_taken(thing: Knob | Rule, place: Standing) -> bool:
    taken = place.taken
    return (thing.since is None or taken >= thing.since) and (thing.until is None or taken <= thing.until)


def _apply(rule: Rule, place: Standing, work: Resolution) -> None:
    there = within(place, rule.since, rule.until)
    if there is False or (there is None and not _at_taken(rule, place)):
        return
    if not all(words.holds(test, work.at) for test in rule.when):
        return
    text = words.fill(rule.text, work.at)
    if rule.action in ("default", "force"):
        for key, value in rule.sets:
            if rule.action == "force" or work.at.get(key) is None:
                had = work.at.get(key)
                work.put(key, words.value_of(value, work.at), "server", text)
                if had is not None and work.at.get(key) != had and text:
                    work.say("note", rule.name, text, [key])
        return
    level = rule.action
    if level in ("refuse", "danger") and there is None and not rule.certain:
        level, text = "warn", f"Not known for this version; SGLang {spell(place.taken)} would say: {text}"
    work.say(level, rule.name, text, [test.key for test in rule.when])


def _check_threshold(work: Resolution) -> None:
    for key in ("accept_threshold_single", "accept_threshold_acc"):
        value = work.at.get(key)
        if isinstance(value, (int, float)) and value < 1:
            work.say("warn", "lossy", f"{key} below 1 accepts drafts that the model would not have written.", [key])
