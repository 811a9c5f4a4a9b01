"""Secrets by reference: ``env:NAME`` and ``file:PATH``. Their values are read at the last moment and never kept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from spectui.core.redact import is_reference


class SecretError(Exception):
    """A reference that leads nowhere. The text names the reference, never a value."""

    exit_code = 2


def reveal(reference: str, environ: Mapping[str, str] | None = None) -> str:
    """The secret that a reference names. Raises SecretError."""
    environ = os.environ if environ is None else environ
    kind, _, place = reference.strip().partition(":")
    if reference.startswith("$"):
        kind, place = "env", reference.strip("${}")
    if kind == "env" and place:
        value = environ.get(place, "")
        if not value.strip():
            raise SecretError(f"the environment variable {place} is not set: export it, or name another in the profile")
        return value.strip()
    if kind == "file" and place:
        try:
            value = Path(place).expanduser().read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise SecretError(f"the file {place} cannot be read: {why}") from None
        if not value:
            raise SecretError(f"the file {place} is empty")
        return value
    raise SecretError("a key is given by reference, as env:NAME or file:PATH, so that it is never shown or stored")


def resolve(value: str, environ: Mapping[str, str] | None = None) -> str:
    """The secret that a reference names; any other text as it is. Raises SecretError."""
    return reveal(value, environ) if is_reference(value) else value


def variable(reference: str, default: str) -> str:
    """The name of the shell variable that stands for a secret in a printed command."""
    kind, _, place = reference.strip().partition(":")
    if reference.startswith("$"):
        return reference.strip("${}")
    return place if kind == "env" and place else default
