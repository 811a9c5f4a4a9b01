"""Text and token ids of the native route, whichever way a server streams them.

SGLang 0.4.9 to 0.5.23 repeat the whole text in each event unless started with ``--stream-output`` or
``--incremental-streaming-output``; the ids repeat too from 0.5.10 on, but not in 0.5.5. Both are told from the data.
"""

from __future__ import annotations

CUMULATIVE, INCREMENTAL = "cumulative", "incremental"
_SURE = 3
"""So many events that continue the text before them make chance unlikely where there are no ids to tell by."""


class NativeAnswer:
    """Gathers the answer, event by event, until it is known how the server streams, and beyond."""

    __slots__ = ("_score", "ids", "ids_mode", "text_mode", "texts")

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.text_mode: str | None = None
        self.ids_mode: str | None = None
        self.texts: list[str] = []
        self._score = 0

    @property
    def cumulative(self) -> bool:
        """The text is known to be repeated, so that only the last event's text is needed."""
        return self.text_mode == CUMULATIVE

    @property
    def incremental(self) -> bool:
        """Both text and ids are known to come once, so that an event only adds to them."""
        return self.text_mode == INCREMENTAL and self.ids_mode == INCREMENTAL

    def add(self, text: str | None, ids: list[int] | None, count: int | None, before: int) -> str:
        """Takes one event; ``count`` and ``before`` are the tokens after and before it. Gives the text it added."""
        if ids is not None:
            self.add_ids(ids, count, before)
        return "" if text is None else self._add_text(text)

    def add_ids(self, ids: list[int], count: int | None, before: int) -> None:
        known = len(self.ids)
        if self.ids_mode is None and known:
            if count is not None and len(ids) == count != count - before:
                self.ids_mode = CUMULATIVE
            elif count is not None and len(ids) == count - before != count:
                self.ids_mode = INCREMENTAL
            elif len(ids) >= known and ids[:known] == self.ids:
                self.ids_mode = CUMULATIVE
            elif ids:
                self.ids_mode = INCREMENTAL
        if self.ids_mode == CUMULATIVE:
            if len(ids) >= known:
                self.ids.extend(ids[known:])
            else:  # a stop string took tokens back
                self.ids = list(ids)
        else:
            self.ids.extend(ids)

    def _add_text(self, text: str) -> str:
        texts = self.texts
        if self.text_mode == INCREMENTAL or not texts:
            if text:
                texts.append(text)
            return text
        before = texts[-1]
        trimmed = before.startswith(text) and bool(text)  # a stop string took its text back
        if self.text_mode == CUMULATIVE or (self.ids_mode == CUMULATIVE and (trimmed or text.startswith(before))):
            self.text_mode = CUMULATIVE
            texts[:] = [text]
            return text[len(before) :] if text.startswith(before) else ""
        if not text.startswith(before):
            self.text_mode = INCREMENTAL
            if text:
                texts.append(text)
            return text
        if len(text) > len(before):
            self._score += 1
        texts.append(text)
        if self._score >= _SURE:
            self.text_mode = CUMULATIVE
            self.texts = [text]
        elif len(text) == len(before) and self.ids_mode == INCREMENTAL:
            return text
        return text[len(before) :]

    def repeats(self, incremental: bool | None) -> bool:
        """Whether events repeat the text; ``incremental`` is what the server's settings say, where the data is open."""
        if self.text_mode is None:
            return len(self.texts) > 1 and (self._score > 0 or incremental is False)
        return self.text_mode == CUMULATIVE

    def text(self, incremental: bool | None) -> str:
        """The whole text."""
        return self.texts[-1] if self.texts and self.repeats(incremental) else "".join(self.texts)
