"""One prompt again and again: shows what an n-gram store makes of answers that it has seen."""

from __future__ import annotations

from spectui.workloads._workload import Sets, Workload, chat_prompt

TIMES = 32
MEASURED = "Describe a harbour town on a market day in about two hundred words, from the first boat to the last lamp."
FED = "Describe a mountain village on a snowy day in about two hundred words, from the first bell to the last window."


def build(seed: int) -> Sets:
    # One prompt has one order: the seed has nothing to change.
    return Sets((chat_prompt("repeat", FED),) * TIMES, (chat_prompt("repeat", MEASURED),) * TIMES)


WORKLOAD = Workload(
    name="repeat",
    title="one prompt, repeated",
    help="The same request 32 times. An n-gram store copies its own earlier answer, so that figures climb with each "
    "repetition. It shows the effect; it is no trial of anything.",
    kinds=("repeat",),
    max_tokens=256,
    build=build,
    marks=("contaminating",),
)
