"""External n-gram corpora of a server (SGLang 0.5.12 and later)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spectui.engines.sglang.answers import CorpusOutcome
from spectui.engines.sglang.asking import Asking
from spectui.engines.sglang.connection import words_of
from spectui.engines.sglang.errors import NotThere


class Corpora(Asking):
    """The corpora that are loaded on one server."""

    def corpora(self) -> dict[str, int] | None:
        """Loaded external corpora and their tokens; None where this server has none to list."""
        answer = self.connection.call("GET", "/list_external_corpora")
        if answer.status in (401, 403):
            raise self.connection.failure_of(answer, "/list_external_corpora")
        body = answer.json
        if answer.status != 200 or not isinstance(body, dict) or not body.get("success"):
            return None
        counts = body.get("corpus_token_counts")
        if not isinstance(counts, dict):
            return None
        return {str(name): count for name, count in counts.items() if isinstance(count, int)}

    def add_corpus(
        self,
        *,
        documents: Sequence[str] | None = None,
        file_path: str | None = None,
        corpus_id: str | None = None,
        timeout: float = 120.0,
    ) -> CorpusOutcome:
        """Load a corpus from documents, or from a JSONL file of strings that lies on the server's disk."""
        body: dict[str, Any] = {"documents": list(documents)} if documents is not None else {"file_path": file_path}
        if corpus_id is not None:
            body["corpus_id"] = corpus_id
        return self._corpus_call("/add_external_corpus", body, corpus_id or "", timeout)

    def remove_corpus(self, corpus_id: str) -> CorpusOutcome:
        """Not while another corpus is loading: the server does not guard against it."""
        return self._corpus_call("/remove_external_corpus", {"corpus_id": corpus_id}, corpus_id, None)

    def _corpus_call(self, path: str, body: dict[str, Any], corpus_id: str, timeout: float | None) -> CorpusOutcome:
        answer = self.connection.call("POST", path, body=body, timeout=timeout)
        if answer.status in (401, 403):
            raise self.connection.failure_of(answer, path)
        if answer.status in (404, 405):
            raise NotThere("this version takes no external corpora (they came with 0.5.12)", self.url, "")
        found = answer.json if isinstance(answer.json, dict) else {}
        count = found.get("loaded_token_count")
        named = found.get("corpus_id")
        ok = answer.status == 200 and bool(found.get("success"))
        return CorpusOutcome(
            ok,
            named if isinstance(named, str) and named else corpus_id,
            words_of(answer, self.connection.secrets) or ("" if ok else f"HTTP {answer.status}"),
            count if isinstance(count, int) else None,
        )
