"""Does a request bound to a JSON schema get what the schema says? Grammar and drafts must work together."""

from __future__ import annotations

import json

from spectui.checks import _asking
from spectui.checks._probe import Finding, Probe, not_checked
from spectui.checks._subject import Subject

_EXPECTED = "JSON as the schema says"
_SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "inhabitants": {"type": "integer"}},
    "required": ["city", "inhabitants"],
    "additionalProperties": False,
}


def run(subject: Subject) -> Finding:
    client = subject.client
    assert client is not None
    if subject.info is not None and subject.info.simulated:
        return not_checked("the simulated server has no grammar", expected=_EXPECTED)

    def ask() -> Finding:
        said = f"Name one city and its inhabitants, as JSON. (question {_asking.fresh()})"
        shape = {"type": "json_schema", "json_schema": {"name": "city", "schema": _SCHEMA, "strict": True}}
        body = client.chat(
            [{"role": "user", "content": said}],
            max_tokens=256,
            temperature=0,
            response_format=shape,
            timeout=_asking.LIMIT_S,
        )
        return judge(*_asking.message_of(body))

    return _asking.asked(ask, _EXPECTED)


def judge(text: str, tokens: int, thoughts: str) -> Finding:
    value = f"{tokens} tokens"
    if not text.strip() and thoughts.strip():
        return not_checked("the model was still thinking when its limit came", value=value, expected=_EXPECTED)
    try:
        found = json.loads(text)
    except ValueError:
        step = "Check the grammar backend (--grammar-backend); some algorithms do not work with a grammar"
        return Finding(False, value, _EXPECTED, "the answer is not JSON", step)
    good = (
        isinstance(found, dict)
        and set(found) == {"city", "inhabitants"}
        and isinstance(found["city"], str)
        and isinstance(found["inhabitants"], int)
    )
    if good:
        return Finding(True, value, _EXPECTED, "the answer fits the schema")
    return Finding(
        False, value, _EXPECTED, "the answer is JSON and not as the schema says", "Check the grammar backend"
    )


PROBE = Probe(
    "structured_request",
    "Does a JSON schema hold?",
    "Grammar and drafting touch the same logits; where they disagree, tools and agents break first.",
    run,
    order=73,
)
