"""What counts as an error in a server's log, and what does not."""

from __future__ import annotations

from spectui.checks.log_errors import errors_in, without_route_errors

ROUTE = (
    "[2026-11-30 00:32:09] ERROR:    Exception in ASGI application",
    "Traceback (most recent call last):",
    '  File "/opt/site/fastapi/responses.py", line 96, in render',
    "TypeError: Integer exceeds 64-bit range",
)
AFTER = "[2026-11-30 00:32:10] Decode batch, #running-req: 1"


def test_a_failing_route_is_no_error_of_generation() -> None:
    kept, routes = without_route_errors((*ROUTE, AFTER, *ROUTE))
    assert routes == 2
    assert kept == (AFTER,)
    assert errors_in(kept) == []


def test_an_exception_of_the_scheduler_after_a_route_still_counts() -> None:
    scheduler = "[2026-11-30 00:32:11] Scheduler hit an exception: Traceback (most recent call last):"
    kept, routes = without_route_errors((*ROUTE, scheduler, "AssertionError: x"))
    assert routes == 1
    assert errors_in(kept) == [scheduler]


def test_words_of_a_healthy_start_are_no_errors() -> None:
    assert (
        errors_in(
            (
                "[2026-11-30 04:56:49] Ignore import error when loading sglang.srt.models.kimi_vl: No module named 'x'",
                "semantic.py:1670: UserWarning: tl.where with a non-boolean condition is deprecated and will error out",
                "[2026-11-30 04:56:49] server_args=ServerArgs(log_level='error')",
            )
        )
        == []
    )
    assert errors_in(("[2026-11-30 04:56:49] Scheduler watchdog timeout (self.watchdog_timeout=300)",))
