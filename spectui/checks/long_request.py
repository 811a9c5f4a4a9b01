"""Does a request with a long prompt get a sane answer? It crosses chunked prefill and many pages."""

from __future__ import annotations

from spectui.checks import _asking
from spectui.checks._probe import Finding, Probe, not_checked
from spectui.checks._subject import Subject

_EXPECTED = "a sane answer to about 3,000 tokens"
_WORDS = [
    "river",
    "stone",
    "market",
    "winter",
    "window",
    "garden",
    "letter",
    "engine",
    "bridge",
    "harvest",
    "station",
    "copper",
    "lantern",
    "meadow",
]


def run(subject: Subject) -> Finding:
    client = subject.client
    assert client is not None
    context = subject.info.server.get("context_len") if subject.info is not None else None
    if isinstance(context, int) and context < 4096:
        return not_checked(f"the server's context is {context} tokens", expected=_EXPECTED)

    def ask() -> Finding:
        mark = _asking.fresh()
        lines = [
            f"{n}. On day {n} of log {mark} the {_WORDS[n % 14]} near the {_WORDS[(3 * n + 5) % 14]} was checked."
            for n in range(1, 121)
        ]
        said = "Here is a log.\n" + "\n".join(lines) + "\nIn two sentences, what is this log about?"
        body = client.chat([{"role": "user", "content": said}], max_tokens=64, temperature=0, timeout=_asking.LIMIT_S)
        return _asking.judged(*_asking.message_of(body), _EXPECTED)

    return _asking.asked(ask, _EXPECTED)


PROBE = Probe(
    "long_request",
    "Does a long prompt get a sane answer?",
    "Chunked prefill, pages and draft caches meet only on long prompts; short ones do not show their faults.",
    run,
    order=71,
)
