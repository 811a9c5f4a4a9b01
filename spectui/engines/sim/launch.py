"""A simulated server's life: arguments, start-up in phases, serving, and the ways to end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path

from spectui.core.ngram import NgramSettingsError
from spectui.engines.sim import failures, loglines
from spectui.engines.sim.arguments import BadArguments, Launch, parse
from spectui.engines.sim.http import Connection
from spectui.engines.sim.log import Log
from spectui.engines.sim.proposers import Proposer, proposer
from spectui.engines.sim.requests import SimRequest
from spectui.engines.sim.server import SimServer

WORKER_TITLE = "sglang::scheduler"
_SLOW = 10.0
_CRASH_DIAGNOSTICS_S = 5.0
_WATCH_S = 0.05


def run(argv: list[str]) -> int:
    """The whole life of a server; see :func:`spectui.engines.sim.main`."""
    log = Log()
    try:
        launch = parse(argv)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except BadArguments as problem:
        log.raw(failures.argument_error(problem.kind, str(problem)))
        return 1
    for line in launch.plain_lines:
        log.raw(line)
    if launch.sim.fail == "draft":
        log.raw(failures.draft_not_found(launch.args["speculative_draft_model_path"] or "no-such-draft"))
        return 1
    for line in launch.log_lines:
        log.line(line)
    try:
        return asyncio.run(_Life(launch, log).live())
    except KeyboardInterrupt:
        return 130


class _Life:
    def __init__(self, launch: Launch, log: Log) -> None:
        self._launch = launch
        self._log = log
        self._worker = _spawn_worker()
        self._ended: asyncio.Future[int] | None = None
        self._drain: asyncio.Task[None] | None = None

    async def live(self) -> int:
        try:
            return await self._live()
        finally:
            if self._worker.poll() is None:
                self._worker.kill()
            self._worker.wait()

    async def _live(self) -> int:
        self._ended = asyncio.get_running_loop().create_future()
        drafts = await self._start()
        if isinstance(drafts, int):
            return drafts
        launch, log = self._launch, self._log
        server = SimServer(launch, drafts, log)
        host, port = str(launch.args["host"]), int(launch.args["port"])
        log.line(f"INFO:     Started server process [{os.getpid()}]")
        log.line("INFO:     Waiting for application startup.")
        log.line("INFO:     Application startup complete.")
        loop = asyncio.get_running_loop()
        try:
            if launch.sim.fail == "port":
                raise OSError
            listening = await loop.create_server(server.connection, host, port, backlog=2048)
        except OSError:
            log.line(failures.port_in_use(host, port))
            return 1
        log.line(f"INFO:     Uvicorn running on http://{host}:{port} (Press CTRL+C to quit)")
        tasks = [loop.create_task(server.scheduler.run()), loop.create_task(self._watch(server))]
        tasks[0].add_done_callback(self._scheduler_ended)
        try:
            await self._warm_up(server)
            loop.add_signal_handler(signal.SIGTERM, self._terminated, server)
            return await self._ended
        finally:
            listening.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _start(self) -> int | Proposer:
        """Through the phases until HTTP may come up; an exit code where the start fails."""
        launch, log = self._launch, self._log
        phases = loglines.phases(launch)
        whole = launch.sim.startup_s * (_SLOW if launch.sim.fail == "slow" else 1.0)
        kind = launch.sim.fail
        if launch.algorithm in ("EAGLE3", "STANDALONE") and launch.args["speculative_draft_model_path"] is None:
            kind = "no draft"
        breaks_at = next((i for i, p in enumerate(phases) if "graph" in p.name.lower()), len(phases) - 1)
        for i, phase in enumerate(phases):
            await asyncio.sleep(phase.share * whole)
            if self._worker.poll() is not None:
                return self._died_early()
            for line in phase.lines:
                (log.line if phase.stamped else log.raw)(line)
            if i == breaks_at and kind == "hang":
                while self._worker.poll() is None:
                    await asyncio.sleep(_WATCH_S)
                return self._died_early()
            broken = failures.scheduler_failed(kind, launch) if i == breaks_at and kind else None
            if broken:
                self._child_failed(broken)
        try:
            drafts = proposer(launch)
        except NgramSettingsError as problem:
            self._child_failed(failures.store_refused(str(problem)))
            raise
        for line in loglines.ready_lines(launch):
            log.line(line)
        return drafts

    async def _warm_up(self, server: SimServer) -> None:
        """The eight tokens that the real server asks of itself before it calls itself ready."""
        done = asyncio.Event()

        def ended(request: SimRequest) -> None:
            if request.finish is not None:
                done.set()

        if not self._launch.args["skip_server_warmup"]:
            await asyncio.sleep(server.life_scale)
            prompt = server.tokenizer.encode("The capital city of France is")
            request = server.new_request(prompt, {"max_new_tokens": 8, "temperature": 0.0}, ended)
            request.internal = True
            server.scheduler.submit(request)
            await done.wait()
        server.ready = True
        self._log.line("The server is fired up and ready to roll!")

    def _scheduler_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            told = traceback.format_exception(task.exception())
            self._child_failed("Scheduler hit an exception: " + "".join(told))

    # -- ends ---------------------------------------------------------------------------------------------------

    def _died_early(self) -> int:
        self._log.raw(
            "Traceback (most recent call last):\n"
            '  File "/opt/site/sglang/srt/entrypoints/engine.py", line 1186, in _wait_for_scheduler_ready\n'
            f"RuntimeError: Rank 0 scheduler died during initialization (exit code: {self._worker.returncode}). "
            "If exit code is -9 (SIGKILL), a common cause is the OS OOM killer."
        )
        return 1

    def _child_failed(self, message: str) -> None:
        self._log.line(message)
        self._log.line(failures.CHILD_FAILED)
        self._kill_tree()

    def _kill_tree(self) -> None:
        pid = os.getpid()
        self._log.line(f"kill_process_tree called: parent_pid={pid}, include_parent=True, pid={pid}")
        if self._worker.poll() is None:
            self._worker.kill()
            self._worker.wait()
        os.kill(pid, signal.SIGKILL)

    async def _watch(self, server: SimServer) -> None:
        """Take the server down when its worker dies, as SGLang's watchdog does."""
        while self._worker.poll() is None:
            await asyncio.sleep(_WATCH_S)
        server.scheduler.stopped = server.ending = True
        code = self._worker.returncode
        self._log.line(
            f"Subprocess scheduler_0 (pid={self._worker.pid}) crashed with exit code {code}. Triggering SIGQUIT for "
            "cleanup..."
        )
        self._log.line("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
        self._log.line("Sleeping 5 seconds before crash diagnostics to let GPU activity settle.")
        await asyncio.sleep(_CRASH_DIAGNOSTICS_S * server.life_scale)
        self._log.line("No live scheduler processes found; skipping py-spy and CUDA coredump.")
        self._kill_tree()

    def _terminated(self, server: SimServer) -> None:
        if self._drain is None:
            server.ending = True
            self._log.line("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
            self._drain = asyncio.get_running_loop().create_task(self._end_when_idle(server))

    async def _end_when_idle(self, server: SimServer) -> None:
        """Requests in flight are finished first, without a limit; then the process ends as its version does."""
        while not await server.scheduler.until_idle(60.0):
            continue
        await asyncio.sleep(min(0.02, server.life_scale))
        if not self._launch.sim.dialect.ends_cleanly:
            self._kill_tree()
        with contextlib.suppress(asyncio.InvalidStateError):
            assert self._ended is not None
            self._ended.set_result(0)


def _spawn_worker() -> subprocess.Popen[bytes]:
    """A child in the same process group that carries the scheduler's title as its first argument."""
    script = Path(__file__).with_name("worker.py")
    # its first argument is no path to an interpreter, so Python is told where its library is
    same = sys.base_prefix == sys.base_exec_prefix
    home = sys.base_prefix if same else f"{sys.base_prefix}{os.pathsep}{sys.base_exec_prefix}"
    env = {**os.environ, "PYTHONHOME": home}
    return subprocess.Popen(
        [WORKER_TITLE, "-S", "-B", str(script), str(os.getpid())],
        executable=sys.executable,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


__all__ = ["Connection", "run"]
