"""The table of workloads for the docs: ``python -m spectui.workloads._table > docs/workloads.md``."""

from __future__ import annotations

import sys

from spectui.workloads import DEFAULT, MARKS, catalogue


def markdown() -> str:
    rows = [
        "# Workloads",
        "",
        "What is asked of a server while it is measured. Each workload has two sets of prompts of the same kind and",
        "with no prompt in common: the *feeding* set fills an n-gram store, the *measuring* set is measured. A run of",
        "N requests takes the first N of the measuring set. A seed changes the order, never which set a prompt is in.",
        "",
        "| workload | kinds | feeding | measuring | output limit | what it is for |",
        "|---|---|---:|---:|---:|---|",
    ]
    marked = []
    for entry in catalogue():
        workload = entry.workload
        if workload is None:
            rows.append(f"| `{entry.name}` | | | | | cannot be used: {entry.error} |")
            continue
        title = f"`{workload.name}`" + (" (default)" if workload.name == DEFAULT else "")
        kinds = ", ".join(workload.kinds)
        sizes = f"{len(workload.feeding())} | {len(workload.measuring())} | {workload.max_tokens} tokens"
        rows.append(f"| {title} | {kinds} | {sizes} | {workload.help} |")
        marked += [f"- `{workload.name}` is marked *{mark}*: {MARKS[mark]}." for mark in workload.marks]
    rows += ["", *marked, "", *_OWN]
    return "\n".join(rows)


_OWN = """\
## Your own prompts

`--file PROMPTS.jsonl` takes one JSON object a line, in any of these shapes:

```
{"prompt": "one message of a user; goes through the model's chat template"}
{"text": "a text to be continued, sent as it is"}
{"messages": [{"role": "system", "content": "…"}, {"role": "user", "content": "…"}]}
{"conversations": [{"from": "human", "value": "…"}, {"from": "gpt", "value": "…"}]}
```

Chats are sent up to their last user turn. `"group"` sets the kind under which results are shown, `"max_tokens"` an
output limit for that line. Every other prompt of a group is measured, the rest feeds; repeated prompts are left out and
reported. With fewer than 16 different prompts all are measured and nothing is left for feeding. A line that cannot be
used is refused with its number and what is wrong with it.
""".splitlines()


if __name__ == "__main__":
    sys.stdout.write(markdown() + "\n")
