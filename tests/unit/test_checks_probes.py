"""Probes on what was gathered, one fault at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from core_records import record

from spectui import checks
from spectui.checks import Finding, Subject
from spectui.checks._drift import drift
from spectui.checks._intervals import Figure, agree, figure, stored_figure
from spectui.checks._rotation import Rotation
from spectui.checks.log_errors import errors_in
from spectui.checks.structured_request import judge
from spectui.core.gpu import GpuReading
from spectui.core.identities import Identity
from spectui.core.passes import PassResult
from spectui.core.profile import Profile, ServerPart, SpeculativePart
from spectui.core.spec import Prompt
from spectui.engines.sglang.answers import GeneratedToken
from spectui.engines.sglang.errors import TimedOut, Unauthorized
from spectui.engines.sglang.info import read_info
from spectui.engines.sglang.log import read_log
from spectui.hosts.discover import FoundServer
from spectui.hosts.gpus import GpuPanel
from spectui.hosts.visible import Visible
from spectui.store import model_files

TOKEN = GeneratedToken("x", 1, 0.1, {})


def info(**more: Any) -> Any:
    body = {"version": "0.5.15", "model_path": "m", "speculative_algorithm": "EAGLE3", "internal_states": [{}],
            "speculative_num_steps": 3, "speculative_eagle_topk": 1, "speculative_num_draft_tokens": 4,
            "speculative_draft_model_path": "d", "tp_size": 2, "max_total_num_tokens": 1000}  # fmt: skip
    return read_info({**body, **more})


def measured(lengths: list[float], steps: int = 40, step_s: float = 0.01, algorithm: str = "EAGLE3") -> PassResult:
    rows = [
        record(
            i,
            completion_tokens=round(length * steps) + 1,
            verify_steps=steps,
            first_s=100.0,
            last_s=100.0 + steps * step_s,
        )
        for i, length in enumerate(lengths)
    ]
    return PassResult("A", 1, "cold", tuple(rows), tuple(rows), algorithm=algorithm, version="0.5.15", draft_tokens=4)


def subject(**values: Any) -> Subject:
    return Subject("http://s", **{"health": 200, "token": TOKEN, "info": info(), **values})


def ask(name: str, about: Subject) -> Finding:
    probe = next(probe for probe in checks.catalogue() if probe.name == name)
    return checks.run_probe(probe, about)


def profile(algorithm: str = "EAGLE3", evidence: tuple[dict[str, Any], ...] = (), **knobs: Any) -> Profile:
    given = {"draft_model_path": "d", "num_steps": 3, "eagle_topk": 1, **knobs}
    return Profile(
        "p", server=ServerPart(model_path="m"), speculative=SpeculativePart(algorithm, given), evidence=evidence
    )


# -- serving


def test_health_and_serving_are_two_things() -> None:  # FC-81
    dead = subject(token=TimedOut("no answer within 15 s", "http://s", ""))
    found = ask("serving", dead)
    assert found.ok is False
    assert found.value == "health 200, serves: no"
    assert "dead" in found.next
    assert ask("short_request", dead).detail == "not checked: the server generates nothing"
    assert ask("serving", subject()).ok is True
    assert ask("serving", subject(health=503)).ok is False
    keyed = ask("serving", subject(token=Unauthorized("a key is missing", "http://s", "Give --key")))
    assert keyed.next == "Give --key", "a missing key is no dead scheduler"


# -- settings


def test_nextn_is_no_mismatch_when_the_server_calls_it_eagle() -> None:  # FC-12
    mtp = info(speculative_algorithm="EAGLE", speculative_draft_model_path="m")
    found = ask("settings", subject(info=mtp, profile=profile("NEXTN", draft_model_path="m")))
    assert found.ok is True, found
    assert found.rows[0]["in_force"] == "NEXTN (MTP, server calls it EAGLE)"


def test_another_algorithm_is_a_mismatch() -> None:
    found = ask("settings", subject(info=info(speculative_algorithm="EAGLE"), profile=profile("EAGLE3")))
    assert found.ok is False
    assert "algorithm" in found.value


def test_forced_draft_tokens_are_what_this_version_does() -> None:  # FC-07
    found = ask("settings", subject(profile=profile(num_draft_tokens=9)))
    assert found.ok is True, found
    assert "asked 9, in force 4" in found.detail


def test_a_threshold_that_was_loosened_meanwhile_is_no_setting_of_the_profile() -> None:
    loose = info(speculative_accept_threshold_single=0.5)
    found = ask("settings", subject(info=loose, profile=profile()))
    assert found.ok is False
    assert found.value == "accept_threshold_single 0.5"
    assert "--threshold-single 1" in found.next
    assert ask("settings", subject(info=loose, profile=profile(accept_threshold_single=0.5))).ok is True


def test_another_server_argument_is_named() -> None:
    asked = Profile("p", server=ServerPart(model_path="m", args={"tp_size": 4}), speculative=profile().speculative)
    found = ask("settings", subject(profile=asked))
    assert found.ok is False
    assert found.value == "tp_size 2"
    assert found.expected == "tp_size 4"


def test_another_draft_under_the_same_path(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"hidden_size": 1}')
    kept = model_files.identity(str(tmp_path))
    mine = {
        "info": info(speculative_draft_model_path=str(tmp_path)),
        "profile": profile(draft_model_path=str(tmp_path)),
    }
    assert ask("settings", subject(stored=({"draft": kept},), **mine)).ok is True
    (tmp_path / "config.json").write_text('{"hidden_size": 2}')
    found = ask("settings", subject(stored=({"draft": kept},), **mine))
    assert found.ok is False
    assert found.value.startswith("draft config_hash ")


# -- speculation


def test_off_though_asked_for_fails_one_probe_only() -> None:
    off = subject(
        info=info(speculative_algorithm=None), profile=profile(), measured=measured([1.0] * 4, algorithm="none")
    )
    assert "speculation is OFF" in ask("speculation", off).detail
    assert [name for name in ("settings", "accept_length", "step_time") if ask(name, off).ok is False] == []


def test_never_accepted_names_causes() -> None:  # FC-01
    found = ask("speculation", subject(measured=measured([1.0, 1.025, 1.0, 1.0])))
    assert found.ok is False
    assert "never accepted" in found.detail
    assert "chat template" in found.detail
    assert ask("speculation", subject(measured=measured([2.0] * 4))).ok is True


def test_an_empty_store_that_accepts_nothing_is_not_called_broken() -> None:
    ngram = info(speculative_algorithm="NGRAM")
    found = ask("speculation", subject(info=ngram, measured=measured([1.0] * 4, algorithm="NGRAM")))
    assert found.ok is None
    assert "--feed" in found.next


def test_speculation_that_nobody_asked_for() -> None:
    assert ask("speculation", subject(profile=profile("none"))).ok is False


# -- accept length and step time


def entry(**figures: Any) -> dict[str, Any]:
    row = {"pass": "warm", "concurrency": 1, "requests": 8, **figures}
    return {"date": "2026-01-01", "run": "r", "sglang": "0.5.15", "workload": {"name": "mixed"}, "result": [row]}


SPREAD = [2.3, 2.1, 2.5, 2.2, 2.4, 2.3, 2.2, 2.4]


MOVED: list[tuple[float, float, list[str]]] = [
    (1.0, 1.0, []),
    (0.6, 1.0, ["accept_length"]),
    (1.0, 2.0, ["step_time"]),
    (1.0, 0.5, []),
    (1.7, 1.0, ["accept_length"]),
]


@pytest.mark.parametrize(("factor", "step", "bad"), MOVED)
def test_which_of_the_two_moved(factor: float, step: float, bad: list[str]) -> None:
    stored = measured(SPREAD)
    kept = {
        name: figure(stored.good, name, speculative=True).as_list()  # type: ignore[union-attr]
        for name in ("accept_length", "step_time_ms")
    }
    new = measured([factor * x for x in SPREAD], step_s=0.01 * step)
    about = subject(profile=profile(), stored=(entry(**kept),), workload="mixed", measured=new)
    assert [name for name in ("accept_length", "step_time") if ask(name, about).ok is False] == bad


def test_prompt_by_prompt_sees_what_intervals_cannot() -> None:
    stored, new = measured(SPREAD), measured([0.92 * x for x in SPREAD], steps=400)
    whole = figure(stored.good, "accept_length", speculative=True)
    assert whole is not None
    wide = Figure(whole.value, whole.value * 0.8, whole.value * 1.25, 8)
    apart = agree("accept_length", new.good, wide, speculative=True)
    paired = agree("accept_length", new.good, wide, stored.good, speculative=True)
    assert apart is not None
    assert apart.shifted == 0
    assert paired is not None
    assert paired.shifted == -1
    assert paired.how == "prompt by prompt"
    assert paired.ratio == pytest.approx(0.92, abs=0.01)


def test_nothing_stored_is_not_checked() -> None:
    about = subject(measured=measured(SPREAD), workload="mixed")
    assert ask("accept_length", about).detail == "not checked: no profile"
    about = subject(
        measured=measured(SPREAD), workload="edit", profile=profile(), stored=(entry(accept_length=[2, 1, 3]),)
    )
    assert "workload edit" in ask("accept_length", about).detail


def test_what_others_have_published_is_shown_and_judges_nothing() -> None:
    public = {"kind": "public", "source": "a card", "setting": "7 steps", "accept_length": [3.5, 5.0]}
    about = subject(measured=measured(SPREAD), workload="mixed", profile=profile(evidence=(public,)))
    found = ask("accept_length", about)
    assert found.ok is None
    assert found.expected == "others have published 3.50 to 5.00: a card; 7 steps"
    assert "holds no evidence yet" in found.detail


def ngram_subject(**values: Any) -> Subject:
    stored = entry(accept_length=[2.0, 1.9, 2.1])
    stored["result"] = [
        {"pass": "cold", "concurrency": 1, "requests": 8, "accept_length": [1.5, 1.4, 1.6]},
        {"pass": "warm", "concurrency": 1, "requests": 8, "accept_length": [2.3, 2.2, 2.4]},
    ]
    given: dict[str, Any] = {
        "info": info(speculative_algorithm="NGRAM"),
        "profile": profile("NGRAM"),
        "stored": (stored,),
        "workload": "mixed",
        "measured": measured([1.5, 1.45, 1.55, 1.5] * 2, algorithm="NGRAM"),
        "generated_before": 1.0,
    }
    return subject(**{**given, **values})


def test_an_empty_store_is_held_against_cold_and_a_fed_one_against_warm() -> None:
    assert ask("accept_length", ngram_subject()).ok is True
    assert ask("accept_length", ngram_subject(fed=True)).ok is False
    warm = measured([2.3, 2.2, 2.4, 2.3] * 2, algorithm="NGRAM")
    assert ask("accept_length", ngram_subject(measured=warm, fed=True)).ok is True
    assert ask("accept_length", ngram_subject(measured=warm)).ok is False, "more than an empty store can give"
    rich = measured([3.3, 3.2, 3.4, 3.3] * 2, algorithm="NGRAM")
    assert ask("accept_length", ngram_subject(measured=rich, fed=True, generated_before=50_000.0)).ok is True
    assert ask("accept_length", ngram_subject(measured=rich, fed=True)).ok is False
    others = ngram_subject(measured=warm, generated_before=50_000.0)
    assert ask("accept_length", others).ok is True, "the store has learned from others: between cold and warm"
    more = ask("accept_length", ngram_subject(measured=rich, generated_before=50_000.0))
    assert more.ok is True
    assert more.detail.startswith("above what a warm store gave")


def test_prompts_sent_before_prove_nothing_of_a_store() -> None:
    found = ask("accept_length", ngram_subject(reused=6))
    assert found.ok is None
    assert "earlier check" in found.detail


START = 1_800_000_000.0
"""A moment after the evidence was written."""


def falling(**more: Any) -> list[dict[str, Any]]:
    row = {"workload": "mixed", "fed": False, "algorithm": "EAGLE3", **more}
    return [{"t": START + 86400.0 * day, "accept_length": 2.3 - 0.05 * day, **row} for day in range(8)]


def drifting(history: list[dict[str, Any]], **values: Any) -> Finding:
    given: dict[str, Any] = {
        "profile": profile(),
        "stored": (entry(accept_length=[2.3, 1.5, 3.5]),),
        "workload": "mixed",
        "measured": measured([1.9] * 8),
        "history": history,
        "now": START + 86400.0 * 8,
    }
    return ask("accept_length", subject(**{**given, **values}))


def test_a_fall_over_days_is_drift() -> None:
    found = drifting(falling())
    assert found.ok is False
    assert "drifts: -17 %" in found.detail
    assert "over 9 checks in 8.0 days" in found.detail
    steady = [{**row, "accept_length": 1.9 + 0.02 * (i % 2)} for i, row in enumerate(falling())]
    assert drifting(steady).ok is True


@pytest.mark.parametrize("other", [{"workload": "edit"}, {"fed": True}, {"algorithm": "EAGLE"}])
def test_checks_of_something_else_are_no_drift(other: dict[str, Any]) -> None:
    assert drifting(falling(**other)).ok is True


def test_checks_before_the_evidence_are_no_drift() -> None:
    newer = {**entry(accept_length=[1.9, 1.8, 2.0]), "date": "2027-01-25T00:00:00Z"}
    assert drifting(falling(), stored=(newer,)).ok is True


def test_a_store_emptied_by_a_restart_has_not_drifted() -> None:
    rows = ngram_subject().stored
    about = {"info": info(speculative_algorithm="NGRAM"), "profile": profile("NGRAM"), "stored": rows,
             "measured": measured([1.5, 1.45, 1.55, 1.5] * 2, algorithm="NGRAM"), "generated_before": 1.0}  # fmt: skip
    learned = falling(algorithm="NGRAM", store_empty=False)
    assert drifting(learned, **about).ok is True
    assert drifting(falling(algorithm="NGRAM", store_empty=True), **about).ok is False


def test_drift_needs_checks_and_time() -> None:
    assert drift([(0.0, 2.0)] * 5) is None
    assert drift([(0.0, 2.0)] * 8) is None
    assert drift([(float(i), 2.0 * 0.98**i) for i in range(8)]) == pytest.approx((0.98**7 - 1,) * 3)


@pytest.mark.parametrize("kept", [None, [], [1, 2], ["a", 1, 2], [1.0, 0.0, 2.0], [True, 1, 2], 3])
def test_stored_figures_of_any_shape(kept: object) -> None:
    assert stored_figure({"accept_length": kept}, "accept_length") is None


# -- the rest


def test_broken_identities_are_told() -> None:
    one = measured(SPREAD)
    one.__dict__["identities"] = [Identity("sum", "broken", "512 and 513")]
    found = ask("identities", subject(measured=one))
    assert found.ok is False
    assert "512 and 513" in found.detail


def test_cut_off_streams() -> None:
    one = measured(SPREAD)
    rows = (*one.records[:-1], record(7, status="cut off", error="the server hung up"))
    found = ask("streamed_request", subject(measured=PassResult("A", 1, "cold", rows, rows, algorithm="EAGLE3")))
    assert found.ok is False
    assert "cut off: the server hung up" in found.detail


@pytest.mark.parametrize(("text", "thoughts", "ok"), [
    ('{"city": "Oslo", "inhabitants": 700000}', "", True), ('{"city": "Oslo"}', "", False), ("Oslo", "", False),
    ("", "hm", None), ("", "", False), ("[1]", "", False),
])  # fmt: skip
def test_structured_answers(text: str, thoughts: str, ok: bool | None) -> None:
    assert judge(text, 5, thoughts).ok is ok


def test_greedy_answers() -> None:
    stored = [{"prompt_id": f"p{i}", "text": f"answer {i} of the same words as ever"} for i in range(4)]
    about = subject(measured=measured(SPREAD), stored_answers=stored, answers=stored)
    assert ask("greedy_answers", about).value == "4 of 4 the same"
    about.answers = [{"prompt_id": f"p{i}", "text": f"some other words {i}"} for i in range(4)]
    assert ask("greedy_answers", about).ok is False
    about.answers = [{"prompt_id": "p0", "text": "answer 0 of"}]
    assert ask("greedy_answers", about).ok is True, "a smaller limit is no difference"
    about.answers = [{"prompt_id": "p0", "text": "!" * 80}]
    assert "broken" in ask("greedy_answers", about).detail


def server(**values: Any) -> FoundServer:
    return FoundServer(
        **{"pid": 10, "host": "127.0.0.1", "port": 1, "argv": (), "settings": {}, "pids": (10, 11), **values}
    )


def gpu(index: int, **values: Any) -> GpuReading:
    return GpuReading(f"GPU-{index}", index, "H200", **values)


def test_a_missing_and_a_throttled_gpu() -> None:
    panel = GpuPanel((gpu(0), gpu(1)), "ok")
    good = subject(server=server(gpus=(0, 1)), gpus=panel)
    assert ask("gpus", good).ok is True
    missing = ask("gpus", subject(server=server(gpus=(0,)), gpus=panel))
    assert missing.ok is False
    assert "hold 1" in missing.detail
    seen = ask("gpus", subject(server=server(visible=Visible((0,))), gpus=GpuPanel((gpu(0),), "ok")))
    assert "it can see 1" in seen.detail, "in a container the driver shows no processes"
    nodes = subject(info=info(nnodes=2), server=server(gpus=(0,)), gpus=panel)
    assert ask("gpus", nodes).ok is True, "half of its ranks are on the other node"
    absent = server(gpus=(0, 1), visible=Visible((0, 1), invalid="2"))
    assert "given GPU 2" in ask("gpus", subject(server=absent, gpus=panel)).detail
    lost = ask("gpus", subject(server=server(gpus=(0, 1)), gpus=GpuPanel((gpu(0), gpu(1, lost=True)), "ok")))
    assert "GPU 1 is lost" in lost.detail
    hot = GpuPanel((gpu(0), gpu(1, throttle=("thermal",))), "ok")
    assert "thermal" in ask("gpus", subject(server=server(gpus=(0, 1)), gpus=hot)).detail
    capped = GpuPanel((gpu(0), gpu(1, throttle=("power-capped",))), "ok")
    assert ask("gpus", subject(server=server(gpus=(0, 1)), gpus=capped)).ok is True


def test_memory_smaller_than_it_was_and_a_stranger() -> None:
    stored = ({"token_capacity": 2000},)
    assert ask("memory", subject(stored=stored)).ok is False
    assert ask("memory", subject(stored=({"token_capacity": 1000},))).ok is True
    panel = GpuPanel((gpu(0, processes=((10, 5 * 1024**3), (99, 3 * 1024**3))), gpu(1)), "ok")
    found = ask("memory", subject(server=server(gpus=(0, 1)), gpus=panel))
    assert "process 99 holds 3.0 GiB" in found.detail


def test_leftovers_count_on_its_own_gpus_only() -> None:
    left = (server(pid=50, pids=(50, 51), gpus=(1,), leftover=True),)
    assert ask("leftovers", subject(server=server(gpus=(1,)), leftovers=left)).ok is False
    assert ask("leftovers", subject(server=server(gpus=(0,)), leftovers=left)).ok is True


def test_log_errors() -> None:
    lines = ("[x] server_args=ServerArgs(log_level='error')", "[x] Decode batch", "RuntimeError: CUDA error: no")
    assert errors_in(lines) == [lines[2]]
    log = read_log("\n".join(lines))
    assert ask("log_errors", subject(log=log, log_lines=lines)).ok is False
    assert ask("log_errors", subject(log=log, log_lines=lines[:2])).ok is True


def test_forced_acceptance() -> None:  # FC-18
    assert ask("simulated_acceptance", subject(environment={"SGLANG_SIMULATE_ACC_LEN": "3"})).ok is False
    assert ask("simulated_acceptance", subject(environment={})).ok is True
    assert ask("simulated_acceptance", subject()).ok is None


# -- rotation


def prompts(count: int) -> list[Prompt]:
    return [Prompt(f"p{i}", "g", text=f"t{i}") for i in range(count)]


def test_prompts_rotate_and_a_restart_forgets(tmp_path: Path) -> None:
    pool, seen = prompts(6), []
    for _ in range(3):
        state = Rotation.load("http://s", "p", tmp_path)
        state.meet("10:1", None)
        chosen, reused = state.choose(pool, 3)
        state.sent([p.id for p in chosen], 100.0, {"ok": True})
        seen.append(([p.id for p in chosen], reused))
    assert seen == [(["p0", "p1", "p2"], 0), (["p3", "p4", "p5"], 0), (["p0", "p1", "p2"], 3)]
    state = Rotation.load("http://s", "p", tmp_path)
    assert state.meet("11:9", None) is True
    assert state.choose(pool, 3)[1] == 0
    assert len(state.history) == 3
    remote = Rotation.load("http://s", "p", tmp_path)
    remote.server = ""
    assert remote.meet("", 150.0) is False
    assert remote.meet("", 5.0) is True, "its counter went back: it was restarted"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"used": 3, "history": [1], "generated": "x"}', b"\xff"])
def test_a_torn_state_is_none(tmp_path: Path, content: bytes) -> None:
    path = Rotation.load("http://s", None, tmp_path).path
    path.write_bytes(content)
    state = Rotation.load("http://s", None, tmp_path)
    assert (state.used, state.history, state.generated) == ([], [], None)
