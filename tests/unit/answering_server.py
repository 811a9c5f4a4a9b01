"""A plain HTTP server whose answers a test lists by path, and which remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Asked:
    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


Reply = tuple[int, Any] | tuple[int, Any, dict[str, str]] | Callable[[Asked], Any]


@dataclass
class AnsweringServer:
    """``replies``: path -> (status, body[, headers]), a list of those (one a call, the last repeats), or a function."""

    replies: dict[str, Any] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def __enter__(self) -> AnsweringServer:
        outer = self

        class Answering(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def _any(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                raw = self.rfile.read(length) if length else b""
                asked = Asked(self.command, self.path.split("?")[0], self.headers, json.loads(raw) if raw else None)
                outer.asked.append(asked)
                reply = outer.replies.get(asked.path, (404, {"detail": "Not Found"}))
                if isinstance(reply, list):
                    reply = reply.pop(0) if len(reply) > 1 else reply[0]
                if callable(reply):
                    reply = reply(asked)
                status, body, *more = reply
                data = (
                    body
                    if isinstance(body, bytes)
                    else body.encode()
                    if isinstance(body, str)
                    else json.dumps(body).encode()
                )
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                for name, value in (more[0] if more else {}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = _any

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked]
