"""What a server makes of text: token ids and back, answers that are not streamed, and their end."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from spectui.engines.sglang.answers import GeneratedToken
from spectui.engines.sglang.asking import Asking
from spectui.engines.sglang.errors import Broken


class Generating(Asking):
    """Tokenizing and generating on one server."""

    def tokenize(
        self,
        *,
        text: str | None = None,
        messages: Sequence[Mapping[str, Any]] | None = None,
        thinking: bool | None = None,
    ) -> list[int] | None:
        """Token ids of a text, or of messages through the server's chat template (≥ 0.5.12). None: not available here.

        ``thinking`` becomes ``chat_template_kwargs`` under the two names that templates use.
        """
        body: dict[str, Any] = {"model": "default"}
        if messages is not None:
            body["messages"] = [dict(message) for message in messages]
            if thinking is not None:
                body["chat_template_kwargs"] = {"thinking": thinking, "enable_thinking": thinking}
        else:
            body["prompt"] = text or ""
        answer = self._ask("tokenize", "POST", body=body, timeout=max(self.connection.timeout, 10.0))
        if answer.status in (401, 403):
            raise self.connection.failure_of(answer, self._path("tokenize"))
        tokens = answer.json.get("tokens") if answer.status == 200 and isinstance(answer.json, dict) else None
        if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
            return None
        return tokens if tokens or not (text or messages) else None

    def detokenize(self, ids: Sequence[int]) -> str | None:
        """The text of token ids; None: not available here."""
        body = {"model": "default", "tokens": list(ids)}
        answer = self._ask("detokenize", "POST", body=body, timeout=max(self.connection.timeout, 10.0))
        if answer.status in (401, 403):
            raise self.connection.failure_of(answer, self._path("detokenize"))
        text = answer.json.get("text") if answer.status == 200 and isinstance(answer.json, dict) else None
        return text if isinstance(text, str) else None

    def generate(
        self,
        *,
        text: str | None = None,
        input_ids: Sequence[int] | None = None,
        sampling: Mapping[str, Any] | None = None,
        rid: str | None = None,
        timeout: float = 60.0,
        **more: Any,
    ) -> dict[str, Any]:
        """/generate, not streamed: ``{"text", "output_ids", "meta_info"}``."""
        body: dict[str, Any] = {"sampling_params": dict(sampling or {}), **more}
        if input_ids is not None:
            body["input_ids"] = list(input_ids)
        else:
            body["text"] = text if text is not None else "Hello"
        if rid is not None:
            body["rid"] = rid
        return self.post("/generate", body, timeout=timeout)

    def generate_one(self, *, text: str = "Hello", timeout: float | None = None) -> GeneratedToken:
        """Make one token. Raises when none came: a port that answers and a health of 200 prove nothing."""
        started = time.perf_counter()
        found = self.generate(
            text=text,
            sampling={"max_new_tokens": 1, "temperature": 0, "ignore_eos": True},
            timeout=self.connection.timeout if timeout is None else timeout,
        )
        seconds = time.perf_counter() - started
        meta = found.get("meta_info")
        meta = meta if isinstance(meta, dict) else {}
        tokens = meta.get("completion_tokens")
        finish = meta.get("finish_reason")
        if isinstance(finish, dict) and finish.get("type") == "abort":
            raise Broken(f"the test token was aborted: {finish.get('message', '')}", self.url, "See the server's log")
        if not isinstance(tokens, int) or tokens < 1:
            raise Broken("the server answered a request without making a token", self.url, "See the server's log")
        words = found.get("text")
        return GeneratedToken(words if isinstance(words, str) else "", tokens, seconds, meta)

    def chat(
        self, messages: Sequence[Mapping[str, Any]], *, model: str = "default", timeout: float = 60.0, **more: Any
    ) -> dict[str, Any]:
        """/v1/chat/completions, not streamed; ``more`` goes into the body (response_format, tools, max_tokens …)."""
        body = {"model": model, "messages": [dict(message) for message in messages], **more}
        return self.post("/v1/chat/completions", body, timeout=timeout)

    def abort(self, rid_prefix: str = "", *, everything: bool = False) -> bool:
        """Abort requests whose rid begins with the prefix, or all of everyone. True: the server took the order.

        An empty prefix would match every request of every user, so it needs ``everything``.
        """
        if not rid_prefix and not everything:
            raise ValueError("an empty prefix aborts the requests of everyone: say everything=True if that is meant")
        body = {"rid": rid_prefix, "abort_all": everything}
        return self.connection.call("POST", "/abort_request", body=body).status == 200
