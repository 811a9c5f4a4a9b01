"""A simulated server as a process of its own, with its log at hand."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from types import TracebackType
from typing import Any

from own_ports import own_port


class SimProcess:
    """Starts on entering, is killed with its group on leaving. Fast unless told otherwise."""

    def __init__(self, *args: str, speed: float = 1000, startup: float = 0.05, wait: bool = True) -> None:
        self.port = own_port()
        self._wait = wait
        self.log: list[str] = []
        self._news = threading.Condition()
        command = [sys.executable, "-m", "spectui.engines.sim", "--model-path", "sim", "--port", str(self.port)]
        command += ["--sim-speed", str(speed), "--sim-startup", str(startup), *args]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self.log.append(line.decode(errors="replace").rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self.log.append("<end>")
            self._news.notify_all()

    @property
    def text(self) -> str:
        return "\n".join(self.log)

    def until(self, phrase: str, count: int = 1) -> None:
        """Wait for a line of the log."""

        def there() -> bool:
            return sum(phrase in line for line in self.log) >= count or "<end>" in self.log

        with self._news:
            assert self._news.wait_for(there, 20), f"{phrase!r} did not come:\n{self.text[-2000:]}"
        assert sum(phrase in line for line in self.log) >= count, f"ended without {phrase!r}:\n{self.text[-2000:]}"

    def ended(self) -> int:
        """Exit code, once the process is gone and its log is read."""
        code = self.process.wait(20)
        self._reader.join(20)
        return code

    def __enter__(self) -> SimProcess:
        if self._wait:
            try:
                self.until("fired up and ready to roll")
            except BaseException:
                self.__exit__(None, None, None)
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join(20)
        assert self.process.stdout is not None
        self.process.stdout.close()

    # -- calls --------------------------------------------------------------------------------------------------

    def call(
        self, path: str, body: object = None, method: str | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method or ("GET" if body is None else "POST"), path, data, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def json(self, path: str, body: object = None) -> Any:
        status, text = self.call(path, body)
        assert status == 200, f"{path}: {status} {text[:300]}"
        return json.loads(text)

    def events(self, path: str, body: dict[str, Any]) -> list[Any]:
        """Events of a stream, the end mark as text."""
        status, text = self.call(path, body | {"stream": True})
        assert status == 200, text[:300]
        lines = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
        return [line if line == "[DONE]" else json.loads(line) for line in lines]

    def generate(self, text: str, tokens: int = 64, **more: Any) -> Any:
        sampling = {"temperature": 0, "max_new_tokens": tokens} | more.pop("sampling", {})
        return self.json("/generate", {"text": text, "sampling_params": sampling, **more})

    def counter(self, name: str) -> float:
        page = self.call("/metrics")[1].splitlines()
        return sum(float(x.rsplit(" ", 1)[1]) for x in page if x.startswith((name + "{", name + " ")))
