"""What can wait is sent a little at a time, and the picture in the end is that of plain writing."""

from __future__ import annotations

from collections.abc import Callable

import pyte
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.ui.patient_output import HOLD_S, PIECE, PatientOutput, spans_of

WIDTH, HEIGHT = 40, 8


class Line:
    """A terminal, a clock and what is called later."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.now = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.output = PatientOutput(self.send, self.later, lambda: self.now)

    def send(self, text: str) -> int:
        self.sent.append(text)
        return len(text)

    def later(self, seconds: float, call: Callable[[], None]) -> Line:
        self.due.append((self.now + seconds, call))
        return self

    def cancel(self) -> None:
        self.due.clear()

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while self.due and self.due[0][0] <= until:
            self.now, call = self.due.pop(0)
            call()
        self.now = until


def frame(*rows: int, sign: str = "x", wide: int = 300) -> str:
    return "\n".join(f"\x1b[{row + 1};1H{sign * wide}" for row in rows) + "\x1b[1;1H"


def picture(texts: list[str]) -> list[str]:
    screen = pyte.Screen(WIDTH, HEIGHT)
    stream = pyte.Stream(screen)
    for text in texts:
        stream.feed(text)
    return list(screen.display)


def test_a_large_frame_goes_in_pieces_and_other_rows_go_first() -> None:
    line = Line()
    line.output.rows = range(1, 7)
    line.output.write(frame(1, 2, 3, 4, 5, 6, 7), HEIGHT)
    assert line.sent[0].startswith("\x1b[8;1H")  # the row that cannot wait
    line.pass_time(1.0)
    assert len(line.sent) > 3
    assert max(map(len, line.sent)) <= 2 * PIECE + 20
    assert line.output.waiting == 0


def test_nothing_waits_on_a_quick_line_or_where_all_is_drawn_anew() -> None:
    for quick, rows in ((True, (1, 2, 3, 4, 5)), (False, tuple(range(HEIGHT)))):
        line = Line()
        line.output.rows, line.output.quick = range(1, 7), quick
        line.output.write(frame(*rows), HEIGHT)
        assert line.sent == [frame(*rows)]


def test_a_key_holds_what_waits_but_not_its_answer() -> None:
    line = Line()
    line.output.rows = range(1, 7)
    line.output.hold()
    line.output.write(frame(1, 2), HEIGHT)
    assert line.sent == []
    line.output.write(frame(0), HEIGHT)
    assert line.sent == [frame(0)]
    line.pass_time(HOLD_S + 1.0)
    assert line.output.waiting == 0


def test_what_waits_is_written_before_anything_that_is_no_frame_and_dropped_at_the_end() -> None:
    line = Line()
    line.output.rows = range(1, 7)
    line.output.hold()
    line.output.write(frame(1), HEIGHT)
    line.output.write("\x1b[?2026h", HEIGHT)
    assert line.output.waiting
    line.output.write("\x07", HEIGHT)
    assert line.sent[-2:] == [frame(1), "\x07"]
    line.output.hold()
    line.output.write(frame(1), HEIGHT)
    line.output.drop()
    line.pass_time(9.0)
    assert line.sent[-1] == "\x07"


def test_a_frame_without_a_last_move_is_taken_whole() -> None:
    assert spans_of("\x1b[2;1Hab\n\x1b[3;4Hc") == ([(1, "\x1b[2;1Hab"), (2, "\x1b[3;4Hc")], "")


FRAMES = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, HEIGHT - 1), st.integers(1, WIDTH - 9)), min_size=1, max_size=9),
        st.sampled_from("abcdefgh"),
        st.sampled_from([range(0), range(1, 7), range(3, 5)]),
        st.sampled_from([0.0, 0.01, 0.2]),
        st.booleans(),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(FRAMES)
def test_the_picture_is_that_of_plain_writing(
    frames: list[tuple[list[tuple[int, int]], str, range, float, bool]],
) -> None:
    line, plain = Line(), []
    for spans, sign, rows, passes, key in frames:
        text = "".join(f"\x1b[{y + 1};{x}H\x1b[1m{sign * 7}\x1b[0m" for y, x in sorted(spans)) + "\x1b[1;1H"
        line.output.rows = rows
        if key:
            line.output.hold()
        line.output.write(text, HEIGHT)
        plain.append(text)
        line.pass_time(passes)
    line.pass_time(60.0)
    assert picture(line.sent) == picture(plain)
