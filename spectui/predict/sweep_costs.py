"""What the cells of a sweep take, from starts and runs that this node has seen. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spectui.predict.breakeven import Prediction, StepTimeModel
from spectui.predict.settings_grid import Setting
from spectui.predict.sweep import Cell, Costs

START_GUESS_S = 120.0
CONNECT_S = 1.5
"""Contact, warm-up request and flush, a pass."""
_FEED_REQUESTS = 64
"""A store is steady after about so many answers; a workload may allow more."""
_SPEED_GUESS = 40.0
"""Tokens a second of one request, where nothing was measured."""
_FILL_GUESS = 0.7
"""Share of the output limit that answers take."""


def costs(
    settings: Sequence[Setting],
    concurrency: Sequence[int],
    *,
    predicted: Mapping[Cell, Prediction],
    model: StepTimeModel,
    starts: Mapping[str, float | None],
    requests: int,
    passes: Sequence[str],
    feeding: int,
    max_tokens: int,
    pace: float = 1.0,
    paces: Mapping[str, float] | None = None,
    extra_s: float = 0.0,
) -> Costs:
    """``starts``: setting -> seconds that a start took before, None where none was seen; ``feeding``: feeding prompts
    that a stateful setting may be sent; ``pace``: what cells took in this sweep over what was thought; ``paces``: the
    same by algorithm, where it ran."""
    seen = [s for s in starts.values() if s is not None]
    usual = sorted(seen)[len(seen) // 2] if seen else START_GUESS_S
    guessed = not seen and any(s is None for s in starts.values())
    run_s: dict[Cell, float] = {}
    for setting in settings:
        for level in concurrency:
            cell = (setting.name, level)
            request = model.request(level)
            baseline = model.baseline(level)
            if cell in predicted:
                speed = predicted[cell].tokens_per_s
            elif baseline is not None:
                speed = 1000 * level / baseline.ms
            else:
                speed = _SPEED_GUESS * level
                guessed = True
            tokens = request[0] if request is not None else _FILL_GUESS * max_tokens
            fed = min(feeding, _FEED_REQUESTS) if setting.algorithm == "NGRAM" else 0
            sent = sum(requests + (fed if name == "warm" else 0) for name in passes)
            # Fewer requests than run at a time do not fill the batch.
            fill = min(1.0, requests / level)
            run_s[cell] = (paces or {}).get(setting.algorithm, pace) * (
                CONNECT_S * len(passes) + sent * tokens / max(speed * fill, 1e-3)
            )
    known = {name: usual if s is None else s for name, s in starts.items()}
    return Costs(known, run_s, guessed, usual, extra_s=extra_s)
