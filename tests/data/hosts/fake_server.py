"""Behaves like a model server's process tree: a first process that listens, and one worker in the same group.

Options: --noise writes 1 MB after the ready line; --deaf ignores SIGTERM in both; --slow-ready waits for a file.
"""

from __future__ import annotations

import argparse
import http.server
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

WORKER = (
    "import signal,sys,time\nif '--deaf' in sys.argv: signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(300)"
)


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send(f'{{"pid": {os.getpid()}}}'.encode())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._send(b'{"text": "a", "meta_info": {"completion_tokens": 1, "finish_reason": {"type": "length"}}}')

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


def line(text: str) -> None:
    raw(time.strftime("[%Y-%m-%d %H:%M:%S] ") + text)


def raw(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    for name in ("--noise", "--deaf", "--quiet"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("--slow-ready", default="")
    args, _ = parser.parse_known_args()
    if args.deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    worker = subprocess.Popen([sys.executable, "-c", WORKER, *(["--deaf"] if args.deaf else [])])
    line("server_args=ServerArgs(model_path='x')")
    line("Load weight begin. avail mem=1.0 GB")
    line("Load weight end.")
    while args.slow_ready and not Path(args.slow_ready).exists():
        time.sleep(0.02)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", args.port), Answer)
    line(f"Uvicorn running on http://127.0.0.1:{args.port}")
    if not args.quiet:
        line("The server is fired up and ready to roll!")
    if args.noise:
        threading.Thread(target=lambda: [line(f"line {i} " + "x" * 45) for i in range(15000)], daemon=True).start()
    raw(f"worker={worker.pid}")
    server.serve_forever()


main()
