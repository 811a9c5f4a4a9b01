"""Bytes a second and CPU of four charts of two curves at 2 Hz in a terminal of 160×48. Limit: 6 KB/s.

    python bench/chart.py [--seconds 30] [--hz 2] [--form braille] [--theme spectui-dark]

The charts run in a child on a pseudo-terminal; what it writes is counted after the first second, the first paint
apart. Answers to the terminal queries that Textual makes are not given, as a plain terminal would not.
"""

from __future__ import annotations

import argparse
import fcntl
import math
import os
import pty
import random
import resource
import select
import signal
import struct
import sys
import termios
import time

LIMIT = 6 * 1024


def child(hz: float, form: str, theme: str, charts: int) -> None:
    from textual.app import App, ComposeResult
    from textual.containers import Grid

    from spectui.ui.themes import THEMES
    from spectui.ui.widgets.chart import Chart, ChartData, Line, Mark, Reference

    class Bench(App[None]):
        CSS = """
        Grid { grid-size: 2 2; }
        Chart { border: round $border; height: 1fr; }
        """
        chart_form = form

        def compose(self) -> ComposeResult:
            with Grid():
                for _ in range(charts):
                    yield Chart()

        def on_mount(self) -> None:
            for one in THEMES:
                self.register_theme(one)
            self.theme = theme
            self.noise = random.Random(1)
            now = time.time()
            self.points = {
                (n, arm): [(now - 120 + i / 2, self.value(n, arm, now - 120 + i / 2)) for i in range(240)]
                for n in range(charts)
                for arm in "AB"
            }
            self.tick()
            self.set_interval(1 / hz, self.tick)

        def value(self, n: int, arm: str, t: float) -> float:
            level = (372.0, 4.9, 90.0, 600.0)[n % 4] * (1.0 if arm == "A" else 0.65)
            return level * (1 + 0.06 * math.sin(t / 17 + n) + self.noise.gauss(0, 0.015))

        def tick(self) -> None:
            now = time.time()
            with self.batch_update():
                for n, chart in enumerate(self.query(Chart)):
                    lines = []
                    for arm in "AB":
                        points = self.points[n, arm]
                        points.append((now, self.value(n, arm, now)))
                        del points[:-300]
                        shown = f"{points[-1][1]:.3g}"
                        lines.append(Line(arm, tuple(points), shown, arm.lower(), arm == "B"))
                    title, unit = (("output", "tok/s"), ("accept length", ""), ("GPU", "%"), ("power", "W"))[n % 4]
                    even = (Reference(2.8, "A breaks even 2.8"),) if n % 4 == 1 else ()
                    marks = (Mark(now - now % 60, "flush"),)
                    chart.show(ChartData(title, unit, tuple(lines), now, 120.0, even, marks))

    Bench().run(mouse=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--hz", type=float, default=2.0)
    parser.add_argument("--form", default="braille")
    parser.add_argument("--theme", default="spectui-dark")
    parser.add_argument("--charts", type=int, default=4)
    args = parser.parse_args()
    os.environ.update(TERM="xterm-256color", COLORTERM="truecolor", TEXTUAL_ANIMATIONS="none")
    os.environ.pop("NO_COLOR", None)
    pid, fd = pty.fork()
    if pid == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 48, 160, 0, 0))
        child(args.hz, args.form, args.theme, args.charts)
        sys.exit(0)
    start = time.monotonic()
    first = later = 0
    begun: float | None = None
    try:
        while begun is None or time.monotonic() - begun < args.seconds:
            if not select.select([fd], [], [], 1.0)[0]:
                if time.monotonic() - start > 20 and begun is None:
                    raise SystemExit("nothing was drawn within 20 s")
                continue
            try:
                count = len(os.read(fd, 65536))
            except OSError:
                raise SystemExit("the charts ended early") from None
            if begun is None and time.monotonic() - start > 2:
                begun = time.monotonic()
            if begun is None:
                first += count
            else:
                later += count
        seconds = time.monotonic() - begun
    finally:
        os.kill(pid, signal.SIGTERM)
        time.sleep(0.2)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(fd)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    rate = later / seconds
    print(f"first 2 s: {first} bytes")
    print(f"{args.charts} charts, {args.hz:g} Hz, {args.form}, {args.theme}: {rate:.0f} B/s (limit {LIMIT})")
    print(f"CPU of the child, start included: {used.ru_utime + used.ru_stime:.2f} s in {seconds + 2:.0f} s")
    return 0 if rate <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
