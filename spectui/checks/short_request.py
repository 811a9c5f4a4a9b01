"""Does a short chat request get a sane answer?"""

from __future__ import annotations

from spectui.checks import _asking
from spectui.checks._probe import Finding, Probe
from spectui.checks._subject import Subject

_EXPECTED = "a sane answer"


def run(subject: Subject) -> Finding:
    client = subject.client
    assert client is not None

    def ask() -> Finding:
        said = f"In one sentence, why is the sky blue? (question {_asking.fresh()})"
        body = client.chat([{"role": "user", "content": said}], max_tokens=48, temperature=0, timeout=_asking.LIMIT_S)
        return _asking.judged(*_asking.message_of(body), _EXPECTED)

    return _asking.asked(ask, _EXPECTED)


PROBE = Probe(
    "short_request",
    "Does a short request get a sane answer?",
    "Speed means nothing when the text is broken, and a wrong draft or backend can break it silently.",
    run,
    order=70,
)
