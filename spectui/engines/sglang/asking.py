"""The ways to put a question to a server: an address by its name, new or old, and a JSON object in and out."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, TypeVar

from spectui.engines.sglang.connection import Answer, Connection, words_of
from spectui.engines.sglang.errors import Broken, Refused
from spectui.engines.sglang.routes import ADDRESSES

_Same = TypeVar("_Same", bound="Asking")


class Asking:
    """One server. Every call ends within its limit; failures are the :class:`EngineError` kinds."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.url = connection.where
        self._chosen: dict[str, str] = {}

    def __enter__(self: _Same) -> _Same:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.connection.close()

    def address_of(self, name: str) -> str | None:
        """The path that this server answered for ``info``, ``loads`` …; None before the first contact."""
        return self._chosen.get(name)

    def _ask(self, name: str, method: str = "GET", *, body: object = None, timeout: float | None = None) -> Answer:
        """Call a named address: the new name first, the old one only where that is not there, remembered after."""
        known = self._chosen.get(name)
        answer = Answer(404, b"")
        for path in [known] if known else ADDRESSES[name]:
            answer = self.connection.call(method, path, body=body, timeout=timeout)
            if answer.status not in (404, 405):
                self._chosen[name] = path
                break
        return answer

    def _path(self, name: str) -> str:
        return self._chosen.get(name, ADDRESSES[name][0])

    def post(self, path: str, body: Mapping[str, Any], *, timeout: float | None = None) -> dict[str, Any]:
        """A JSON object in, a JSON object out; any other outcome raises its named error."""
        answer = self.connection.call("POST", path, body=dict(body), timeout=timeout)
        if answer.status != 200:
            raise self.connection.failure_of(answer, path)
        found = answer.json
        if not isinstance(found, dict):
            raise Broken(f"{path} answered something that is no JSON object", self.url, "Is this an SGLang server?")
        error = found.get("error")
        if isinstance(error, dict):
            raise Refused(f"{path} was refused: {words_of(answer, self.connection.secrets)}", self.url, "")
        return found
