"""Causes of failed starts in the words of a real server (SGLang 0.5.15.post1)."""

from __future__ import annotations

from spectui.engines.sglang.log import LogReader

SIDE_BY_SIDE = """\
[2026-11-30 04:41:18] server_args=ServerArgs(model_path='/models/smol', mem_fraction_static=0.05, port=30011)
[2026-11-30 04:41:18] Load weight begin. avail mem=97.61 GB
[2026-11-30 04:41:18] Load weight end. elapsed=0.20 s, type=LlamaForCausalLM, avail mem=97.34 GB, mem usage=0.27 GB.
[2026-11-30 04:41:19] Scheduler hit an exception: Traceback (most recent call last):
  File "/opt/site/sglang/srt/model_executor/model_runner_kv_cache_mixin.py", line 129, in _profile_available_bytes
ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.05. \
Raise --mem-fraction-static above 0.281 (minimum viable = 1 - available/pre = 0.2802).

[2026-11-30 04:41:19] Received sigquit from a child process. It usually means the child failed.
"""


def test_servers_that_load_side_by_side_run_out_of_pool() -> None:
    reader = LogReader()
    reader.feed(SIDE_BY_SIDE, 1.0)
    reader.close()
    failure = reader.failure
    assert failure is not None
    assert failure.kind == "out of memory: KV pool"
    assert failure.direction == "raise"
    assert failure.fraction == 0.05
    assert "start them in turn" in failure.hint
