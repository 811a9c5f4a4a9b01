"""What the stream of a request has told so far: counts, times, text, token ids, and the server's words at its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spectui.engines.sglang.contract import SpecDetails, spec_fields
from spectui.runner import payload as events
from spectui.runner.native import INCREMENTAL, NativeAnswer
from spectui.runner.sse import EventSplitter


class Told:
    """``incremental`` is what the server's settings say of the native route."""

    __slots__ = (
        "_broken", "_content", "_cumulative", "_error", "_finish_ns", "_finish_payload", "_incremental", "_last",
        "_native", "_spec", "_splitter", "_stepwise", "_thoughts", "_usage_payload", "counts", "done", "finish",
        "first_answer_ns", "first_ns", "last_ns", "live", "stamps", "start_ns", "text_events", "tokens", "torn",
        "unreadable",
    )  # fmt: skip

    def __init__(self, incremental: bool | None = None) -> None:
        self.start_ns = 0
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self.first_answer_ns: int | None = None
        self.tokens = 0
        self.counts: list[int] = []
        """Tokens so far, after each event that carried tokens."""
        self.stamps: list[int] = []
        self.text_events = 0
        self.unreadable = 0
        self.torn = False
        self.done = False
        """The end mark was seen, or the server named an error: nothing that follows belongs to the answer."""
        self.finish: str | None = None
        self.live: list[tuple[int, str | bytes]] | None = None
        """While a list: tokens and text (or, where text is repeated, the raw event) of each event since last taken."""
        self._incremental = incremental
        self._splitter = EventSplitter()
        self._native: NativeAnswer | None = None
        self._cumulative = False
        self._stepwise = False
        self._last = b""
        self._broken = ""
        self._content: list[str] = []
        self._thoughts: list[str] = []
        self._error: str | None = None
        self._finish_payload = b""
        self._finish_ns: int | None = None
        self._usage_payload = b""
        self._spec: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """The answer, without thoughts that came in a field of their own."""
        if self._native is None:
            return events.clean("".join(self._content))
        if self._cumulative:
            event = events.decode(self._last)
            whole = "" if event is None or event.text is None else event.text
        else:
            whole = events.clean(self._native.text(self._incremental))
        if self._broken and self._native.repeats(self._incremental):
            return self._broken if self._broken.startswith(whole) else whole
        return whole + self._broken

    @property
    def thoughts(self) -> str:
        return events.clean("".join(self._thoughts))

    @property
    def output_ids(self) -> list[int]:
        """Token ids where the route gives them, else empty."""
        native = self._native
        if native is None:
            return []
        if self._cumulative and native.ids_mode != INCREMENTAL:
            event = events.decode(self._last)
            return [] if event is None or event.output_ids is None else event.output_ids
        return native.ids

    @property
    def joined(self) -> bool:
        """Fewer events than verify steps: the server (or a gateway) joined several steps into one event."""
        steps = self.details().verify_steps
        return steps is not None and bool(self.counts) and len(self.counts) - 1 < steps - 1

    def details(self) -> SpecDetails:
        return spec_fields(self.meta() if self._spec is None else self._spec)

    def meta(self) -> Mapping[str, Any]:
        """``meta_info`` of the event that finished the request; empty where there was none."""
        tree = events.as_tree(self._finish_payload) or {}
        meta = tree.get("meta_info")
        if meta is None and isinstance(tree.get("choices"), list) and tree["choices"]:
            first = tree["choices"][0]
            meta = first.get("meta_info") if isinstance(first, dict) else None
        return meta if isinstance(meta, dict) else {}

    def usage(self) -> Mapping[str, Any]:
        """The last ``usage`` that was sent; empty where there was none."""
        found = (events.as_tree(self._usage_payload) or {}).get("usage")
        return found if isinstance(found, dict) else {}

    @property
    def error(self) -> str | None:
        """What the server said went wrong, inside the stream."""
        return self._error

    @property
    def no_answer(self) -> bool:
        """It thought and never answered."""
        return self._native is None and bool(self._thoughts) and not self._content

    def take_live(self) -> list[tuple[int, str]]:
        """Tokens and text of each event since the last call, for the one request that is shown as it streams."""
        taken, self.live = self.live or [], []
        pieces: list[tuple[int, str]] = []
        native = self._native
        for tokens, piece in taken:
            if isinstance(piece, bytes):
                event = events.decode(piece)
                piece = "" if native is None or event is None else native.add(event.text, None, None, 0)
            pieces.append((tokens, piece))
        return pieces
