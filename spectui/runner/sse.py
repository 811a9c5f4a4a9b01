"""Server-sent events out of bytes, over any cut.

Lines end at LF, CR or CRLF and at nothing else: splitters of text also break at U+2028 and U+0085, which are ordinary
characters of an answer. Nothing is decoded here, so a character cut in half by the network needs no care.
"""

from __future__ import annotations

_BOM = b"\xef\xbb\xbf"


EVENT_LIMIT = 64 * 1024**2
"""Bytes of one event. A cumulative answer of 100,000 tokens is well below 1 MiB; what does not end here is no event."""


class EventTooLarge(Exception):
    """A line or an event goes on without an end; ``str()`` says how much of it came."""


class NamedError(bytes):
    """The data of an event that was sent under the name ``error``."""


class EventSplitter:
    """Feeds on received bytes and gives the ``data`` of each finished event.

    Comments, ids, retry times and events without data give nothing. The cost is linear in the bytes, however an event
    is cut: what has no line end yet is kept in pieces and joined once.
    """

    __slots__ = ("_after_cr", "_begun", "_data", "_held", "_name", "_pieces", "clear")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._data: list[bytes] = []
        self._name = b""
        self._after_cr = False
        self._begun = False
        self._held = 0
        """Bytes taken since the splitter was last clear or gave an event."""
        self.clear = False
        """Nothing is left of what came before: no unfinished line, no event in the making."""

    def feed(self, data: bytes) -> list[bytes]:
        """The data of the events that these bytes complete, in order. Raises :class:`EventTooLarge`, and then holds
        nothing any more."""
        if (
            self.clear
            and data[:6] == b"data: "
            and data[-1] == 10
            and data.find(b"\n") == len(data) - 2
            and b"\r" not in data
        ):
            return [data[6:-2]]  # one whole event of one line, as most reads of a paced stream bring
        found = self._feed(data)
        self.clear = self._begun and not (self._pieces or self._data or self._name or self._after_cr)
        self._held = 0 if self.clear or found else self._held + len(data)
        if self._held > EVENT_LIMIT:
            self._pieces.clear()
            self._data.clear()
            raise EventTooLarge(f"an event of more than {EVENT_LIMIT // 1024**2} MiB without an end")
        return found

    def _feed(self, data: bytes) -> list[bytes]:
        if not self._begun:
            data = self._without_bom(data)
        if self._after_cr and data:
            self._after_cr = False
            if data[:1] == b"\n":
                data = data[1:]
        if b"\r" in data:
            self._after_cr = data[-1:] == b"\r"
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        pieces = self._pieces
        if b"\n" not in data:
            if data:
                pieces.append(data)
            return []
        if pieces:
            pieces.append(data)
            data = b"".join(pieces)
            pieces.clear()
        found: list[bytes] = []
        blocks = data.split(b"\n\n")
        rest = blocks.pop()
        for block in blocks:
            if block[:6] == b"data: " and b"\n" not in block and not self._data:
                found.append(self._named(block[6:]) if self._name else block[6:])
                continue
            for line in block.split(b"\n"):
                self._line(line, found)
            self._dispatch(found)
        if b"\n" in rest:
            *lines, rest = rest.split(b"\n")
            for line in lines:
                self._line(line, found)
        if rest:
            pieces.append(rest)
        return found

    def finish(self) -> list[bytes]:
        """What the end of the stream leaves: the data of an event without its blank line, whole or torn."""
        found: list[bytes] = []
        if self._pieces:
            self._line(b"".join(self._pieces), found)
            self._pieces.clear()
        self._dispatch(found)
        return found

    def _line(self, line: bytes, found: list[bytes]) -> None:
        if not line:
            self._dispatch(found)
            return
        field, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value

    def _dispatch(self, found: list[bytes]) -> None:
        if self._data:
            found.append(self._named(b"\n".join(self._data)))
            self._data.clear()
        self._name = b""

    def _named(self, data: bytes) -> bytes:
        name, self._name = self._name, b""
        return NamedError(data) if name == b"error" else data

    def _without_bom(self, data: bytes) -> bytes:
        data = b"".join(self._pieces) + data
        self._pieces.clear()
        if len(data) < len(_BOM) and _BOM.startswith(data):
            if data:
                self._pieces.append(data)
            return b""
        self._begun = True
        return data[len(_BOM) :] if data.startswith(_BOM) else data
