"""One request's stream: received bytes and their stamps in, counts, times and text out. Pure: no clock, no IO.

Tokens are counted from ``completion_tokens`` (native route) or ``usage`` (OpenAI routes), never from events: with
speculation an event carries as many tokens as its verify step accepted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from spectui.runner import payload as events
from spectui.runner.native import INCREMENTAL, NativeAnswer
from spectui.runner.payload import decode_step
from spectui.runner.sse import EventTooLarge, NamedError
from spectui.runner.told import Told

_COUNT = b'"completion_tokens":'
_REASON = b'"finish_reason":'
_IDS = b'"output_ids":'
_ERROR = re.compile(rb'\s*\{\s*"error"\s*:(?!\s*null)')
_TAIL = 1536
"""meta_info and what follows it stand at the end of a native event: some 300 to 900 bytes in all six versions."""
_DIGITS = b"0123456789"


class StreamFold(Told):
    """Folds the stream of one request."""

    __slots__ = ()

    def sent(self, t_ns: int) -> None:
        """The request was handed to the kernel (again, where a kept-open connection turned out to be closed)."""
        self.start_ns = t_ns

    def take(self, heard: list[tuple[bytes, int]]) -> int:
        """Takes bytes of the answer's body, each with the time of its receipt. Gives the time of the end mark, or 0
        while more is expected."""
        at = 0
        while at < len(heard):
            if self._stepwise and self._splitter.clear and not self.done:
                at += self._take_steps(heard[at:] if at else heard)
                if at == len(heard):
                    break
            data, t_ns = heard[at]
            if self.received(data, t_ns):
                return t_ns
            at += 1
        return 0

    def _take_steps(self, heard: list[tuple[bytes, int]]) -> int:
        """Takes native events that only add, the commonest of all, each whole and alone in its chunk, decoded once and
        as little as can be; up to the first that is none. Gives how many were taken."""
        native = self._native
        if native is None:
            return 0
        ids, texts, counts, stamps = native.ids, native.texts, self.counts, self.stamps
        tokens, live = self.tokens, self.live
        taken = 0
        for data, t_ns in heard:
            if data[:6] != b"data: " or data[-2:] != b"\n\n":
                break
            try:
                step = decode_step(data[6:-2])
            except msgspec.MsgspecError:  # another kind of event, or more than one
                break
            ids += step.output_ids
            texts.append(step.text)
            count = step.meta_info.completion_tokens
            if count > tokens:
                counts.append(count)
                stamps.append(t_ns)
                if live is not None:
                    live.append((count - tokens, step.text))
                tokens = count
                self.last_ns = t_ns
            taken += 1
        self.tokens = tokens
        return taken

    def received(self, data: bytes, t_ns: int) -> bool:
        """Takes bytes of the answer's body, received at ``t_ns``; True once nothing more is expected."""
        if self.done:
            return True
        try:
            payloads = self._splitter.feed(data)
        except EventTooLarge as error:
            self._fail(f"the server sent {error}")
            return True
        for payload in payloads:
            if self._cumulative and self._take_tail(payload, t_ns):
                continue
            self._take(payload, t_ns)
            if self._ended():
                return True
        return False

    def _ended(self) -> bool:
        return self.done

    def _take_tail(self, payload: bytes, t_ns: int) -> bool:
        """A native event that repeats the text: only its tail is looked at, so that cost does not grow with it."""
        tail = payload[-_TAIL:]
        at = tail.find(_COUNT)
        reason = tail.find(_REASON)
        if at < 0 or reason < 0 or tail[reason + len(_REASON) :].lstrip()[:4] != b"null":
            return False
        at += len(_COUNT)
        if tail[at] == 32:
            at += 1
        end = at
        while tail[end] in _DIGITS:
            end += 1
        if end == at:
            return False
        count = int(tail[at:end])
        native = self._native
        if native is not None and native.ids_mode == INCREMENTAL:
            ids = tail.rfind(_IDS)
            if ids < 0:
                return False
            try:
                native.add_ids(
                    msgspec.json.decode(tail[ids + len(_IDS) : tail.index(b"]", ids) + 1], type=list[int]),
                    count,
                    self.tokens,
                )
            except (msgspec.MsgspecError, ValueError):
                return False
        if self.live is not None and count > self.tokens:
            self.live.append((count - self.tokens, payload))
        self._count(count, t_ns)
        self._last = payload
        return True

    def _take(self, payload: bytes, t_ns: int) -> None:
        if payload[:1] != b"{":
            stripped = payload.strip()
            if stripped == b"[DONE]":
                self.done = True
                return
            if type(payload) is NamedError:
                self._fail(events.error_words(stripped.decode("utf-8", "replace")))
                return
            if not stripped.startswith(b"{"):
                if stripped and not stripped.startswith(b":"):
                    self.unreadable += 1
                return
        event = events.decode(payload)
        if event is None:
            self.unreadable += 1
            if _ERROR.match(payload):  # not JSON, and plain enough: a library's words put in without care
                self._fail(events.error_words(payload.decode("utf-8", "replace")[:500]))
            return
        if not events.is_null(event.error) or event.object == "error" or type(payload) is NamedError:
            self._fail(events.error_words(events.as_tree(payload)))
            return
        if event.meta_info is not None or event.output_ids is not None:
            self._take_native(event, payload, t_ns)
        else:
            self._take_openai(event, payload, t_ns)

    def _take_native(self, event: events.Event, payload: bytes, t_ns: int) -> None:
        native = self._native
        if native is None:
            native = self._native = NativeAnswer()
        meta = event.meta_info
        count = None if meta is None else meta.completion_tokens
        before = self.tokens
        added = native.add(event.text, event.output_ids, count, before)
        if count is None:
            if added or event.output_ids:
                self._mark(t_ns)
        else:
            if added:
                self.text_events += 1
            self._count(count, t_ns)
        if self.live is not None and self.tokens > before:
            self.live.append((self.tokens - before, added))
        self._cumulative = native.cumulative
        self._stepwise = native.incremental and self.first_ns is not None
        self._last = payload
        if meta is not None and meta.finish_reason is not None:
            self._finish_payload = payload
            self._reason(meta.finish_reason)

    def _take_openai(self, event: events.Event, payload: bytes, t_ns: int) -> None:
        if not events.is_null(event.sglext):
            self._spec = _spec_of(events.as_tree(payload))
        text = thoughts = ""
        role_only = False
        for choice in (event.choices or ())[:1]:
            delta = choice.delta
            if delta is not None:
                text = delta.content or ""
                thoughts = delta.reasoning_content or delta.reasoning or ""
                role_only = delta.role is not None and not text and not thoughts
            elif choice.text:
                text = choice.text
            if choice.finish_reason is not None:
                self._finish_payload = payload
                self._finish_ns = t_ns
                self._reason(choice.finish_reason)
        before = self.tokens
        count = None
        if event.usage is not None:
            count = event.usage.completion_tokens
            self._usage_payload = payload
        if thoughts:
            self._thoughts.append(thoughts)
        if text:
            self._content.append(text)
            if self._thoughts and self.first_answer_ns is None:
                self.first_answer_ns = t_ns
        # The total that comes after all choices is no event that carried tokens, nor is one that only names the role.
        if count is not None and event.choices and not role_only:
            if text or thoughts:
                self.text_events += 1
            self._count(count, t_ns)
        elif count is not None:
            if not event.choices and self.counts and self._finish_ns is not None:
                # A stop token has no text, so no event of its own: its step came with the event that says "stop".
                self._count(count, self._finish_ns)
            elif not event.choices:
                self.tokens = max(self.tokens, count)
        elif text or thoughts:
            self._mark(t_ns)
        if self.live is not None and (text or thoughts):
            self.live.append((self.tokens - before, thoughts + text))

    def _count(self, count: int, t_ns: int) -> None:
        if count > self.tokens:
            self.tokens = count
            self.counts.append(count)
            self.stamps.append(t_ns)
            if self.first_ns is None:
                self.first_ns = t_ns
            self.last_ns = t_ns

    def _mark(self, t_ns: int) -> None:
        self.text_events += 1
        if self.first_ns is None:
            self.first_ns = t_ns
        self.last_ns = t_ns

    def _reason(self, reason: object) -> None:
        if isinstance(reason, dict):
            kind = reason.get("type")
            self.finish = kind if isinstance(kind, str) else None
            if self.finish == "abort":
                words = reason.get("message")
                self._error = self._error or (words if isinstance(words, str) and words else "the server aborted it")
        elif isinstance(reason, str):
            self.finish = reason
            if reason == "abort":
                self._error = self._error or "the server aborted it"

    def _fail(self, words: str) -> None:
        self._error = words
        self.done = True

    def close(self) -> None:
        """Takes what the end of the stream leaves: an event whose blank line never came, whole or torn."""
        if self.done:
            return
        t_ns = self.last_ns or self.start_ns
        for payload in self._splitter.finish():
            if payload.lstrip().startswith(b"{") and events.as_tree(payload) is None:
                self.torn = True
                broken = events.torn_text(payload)
                if broken is not None and self._native is not None:
                    self._broken = broken[1]
                elif broken is not None:
                    (self._content if broken[0] in ("content", "text") else self._thoughts).append(broken[1])
            else:
                self._take(payload, t_ns)


def _spec_of(tree: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """``sglext.spec_tokens_details`` (0.5.23), an object or a list of one."""
    extension = (tree or {}).get("sglext")
    found = extension.get("spec_tokens_details") if isinstance(extension, dict) else None
    if isinstance(found, list) and found:
        found = found[0]
    return found if isinstance(found, dict) else None
