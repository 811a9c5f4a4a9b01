"""What the next run measures with, asked in a form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from spectui.ui.run_options import ABOUT_PASSES, PASSES, faults_of, now_words, options_of, texts_of
from spectui.ui.screens.form import Field, FormScreen, Said

if TYPE_CHECKING:
    from spectui.ui.app import SpectuiApp


def ask_workload(app: SpectuiApp) -> None:
    """Opens the form; what is accepted holds for ``r``, ``c`` and ``f``."""
    from spectui.workloads import catalogue

    options = app.live.measuring.options
    workloads = {e.name: e.workload for e in catalogue() if e.workload is not None}
    now = texts_of(options)
    fields = [
        Field("workload", "workload", options.workload or next(iter(workloads)), tuple(workloads), "what is asked"),
        Field("passes", "pass", now["passes"], tuple(PASSES), ABOUT_PASSES),
        Field("concurrency", "at a time", now["concurrency"], (), "requests at a time: 1,4,16"),
        Field("requests", "requests", now["requests"], (), "the first so many", "all of the workload"),
        Field("max_tokens", "output limit", now["max_tokens"], (), "tokens", "the workload's own"),
    ]

    def left_over(texts: Mapping[str, str], count: int) -> bool:
        """More requests than it has prompts, and nobody typed so: the number was meant for another workload."""
        text = texts["requests"].strip()
        return text == now["requests"] and text.isdigit() and int(text) > count

    def check(texts: Mapping[str, str]) -> list[Said]:
        workload = workloads.get(texts["workload"].strip())
        if workload is None:
            return [(f"there is no workload {texts['workload']}: {', '.join(workloads)}", "bad")]
        if texts["passes"].strip() not in PASSES:
            return [(f"a pass is {', '.join(PASSES)}, not {texts['passes']!r}", "bad")]
        count = len(workload.measuring(0))
        if left_over(texts, count):
            return [(workload.help, ""), (f"all of its {count} prompts are measured with", "")]
        faults = faults_of({**texts, "file": ""}, count)
        if faults:
            return [(fault, "bad") for fault in faults.values()]
        return [(workload.help, ""), (f"{count} prompts to measure with", "")]

    def ended(texts: dict[str, str] | None) -> None:
        if texts is not None:
            values = {key: text.strip() for key, text in texts.items()}
            chosen = workloads.get(values["workload"])
            if chosen is not None and left_over(values, len(chosen.measuring(0))):
                values["requests"] = ""
            options = options_of({**values, "file": ""}, values["workload"], app.live.measuring.options)
            app.live.measuring.options = options
            app.tell(f"r and c now measure {now_words(options)}", "good")

    app.push_screen(FormScreen("What to measure with", fields, check=check, accept="take it"), ended)
