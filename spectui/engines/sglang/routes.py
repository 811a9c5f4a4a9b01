"""Addresses of an SGLang server: new name first, older names after it, and which key opens which.

Source: srt/entrypoints/http_server.py and srt/utils/auth.py of the versions in :mod:`spectui.engines.sglang.contract`.
"""

from __future__ import annotations

ADDRESSES: dict[str, tuple[str, ...]] = {
    "info": ("/server_info", "/get_server_info"),
    "model_info": ("/model_info", "/get_model_info"),
    "loads": ("/v1/loads", "/get_load"),
    "tokenize": ("/tokenize", "/v1/tokenize"),
    "detokenize": ("/detokenize", "/v1/detokenize"),
}
"""Old names exist in all versions (but ``/get_load``, gone in 0.5.23); since 0.5.10 each call logs a deprecation."""

ADMIN_OPTIONAL = frozenset(
    {
        "/set_internal_state",
        "/flush_cache",
        "/abort_request",
        "/pause_generation",
        "/continue_generation",
        "/add_external_corpus",
        "/remove_external_corpus",
        "/list_external_corpora",
        "/start_profile",
        "/stop_profile",
        "/configure_logging",
    }
)
"""From 0.5.10 on these take the administrator key where one is configured, and then refuse the normal one."""

OPEN_PREFIXES = ("/health", "/metrics", "/ready")
"""Answered without a key."""


def auth_level(path: str) -> str:
    """``open``, ``normal`` or ``admin`` (the administrator key where the server has one, else the normal key)."""
    if path.startswith(OPEN_PREFIXES):
        return "open"
    return "admin" if path in ADMIN_OPTIONAL else "normal"


_SINCE: dict[str, str] = {
    "/health": "0.4.9",
    "/health_generate": "0.4.9",
    "/ready": "0.5.23",
    "/get_model_info": "0.4.9",
    "/model_info": "0.5.10",
    "/get_server_info": "0.4.9",
    "/server_info": "0.5.10",
    "/get_load": "0.4.9",
    "/v1/loads": "0.5.10",
    "/generate": "0.4.9",
    "/v1/chat/completions": "0.4.9",
    "/v1/completions": "0.4.9",
    "/v1/models": "0.4.9",
    "/tokenize": "0.5.5",
    "/detokenize": "0.5.5",
    "/flush_cache": "0.4.9",
    "/abort_request": "0.4.9",
    "/pause_generation": "0.4.9",
    "/continue_generation": "0.4.9",
    "/set_internal_state": "0.4.9",
    "/add_external_corpus": "0.5.12",
    "/remove_external_corpus": "0.5.12",
    "/list_external_corpora": "0.5.12",
    "/metrics": "0.4.9",
}
_GONE: dict[str, str] = {"/get_load": "0.5.23"}


def addresses_of(version: str, known: tuple[str, ...]) -> frozenset[str]:
    """The addresses that ``version`` (one of ``known``, oldest first) has."""
    at = known.index(version)
    return frozenset(
        path
        for path, since in _SINCE.items()
        if known.index(since) <= at and (path not in _GONE or known.index(_GONE[path]) > at)
    )
