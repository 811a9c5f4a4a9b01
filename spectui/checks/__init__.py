"""The check after a restart, one file a probe, found by its name. A file declares ``PROBE``.

A file that cannot be loaded is a probe with its error: it is shown, never run, and stops nothing else. A probe that
fails inside is *not checked*, with the fault.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator

from spectui.checks._probe import NEEDS, Finding, Probe, not_checked
from spectui.checks._subject import Subject

__all__ = ["NEEDS", "Finding", "Probe", "Subject", "catalogue", "markdown", "names", "probe_all", "run_probe"]

_HERE = "spectui.checks"


def names(package: str = _HERE) -> tuple[str, ...]:
    """Names of the probe files, without loading any."""
    where = importlib.import_module(package).__path__
    return tuple(sorted(m.name for m in pkgutil.iter_modules(where) if not m.name.startswith("_")))


def catalogue(package: str = _HERE) -> tuple[Probe, ...]:
    """All probes in their order; broken ones last, with their error."""
    found = [_load(name, package) for name in names(package)]
    return tuple(sorted(found, key=lambda probe: (probe.error is not None, probe.order, probe.name)))


def _load(name: str, package: str) -> Probe:
    try:
        probe = importlib.import_module(f"{package}.{name}").PROBE
        if not isinstance(probe, Probe):
            raise TypeError(f"PROBE is a {type(probe).__name__}, not a Probe")
        if probe.name != name:
            raise ValueError(f"it calls itself {probe.name!r}: give file and probe the same name")
        unknown = [need for need in probe.needs if need not in NEEDS]
        if unknown:
            raise ValueError(f"it needs {', '.join(unknown)}; there are: {', '.join(NEEDS)}")
        return probe
    except Exception as fault:  # whatever an extension file does wrong must not end the check
        why = f"{name}.py: {type(fault).__name__}: {fault}"
        return Probe(name, name, "Its file could not be read.", lambda _subject: not_checked(why), 999, (), why)


def run_probe(probe: Probe, subject: Subject) -> Finding:
    """One probe on what is known of the server. Never raises, whatever the probe does."""
    if probe.error is not None:
        return not_checked(f"this probe cannot be loaded: {probe.error}")
    for need in probe.needs:
        lacking = subject.lacks(need)
        if lacking is not None:
            return not_checked(lacking)
    try:
        return probe.run(subject)
    except Exception as fault:
        return not_checked(f"the probe failed: {type(fault).__name__}: {fault}")


def probe_all(
    subject: Subject,
    say: Callable[[Probe, Finding], None] = lambda _probe, _finding: None,
    *,
    package: str = _HERE,
) -> Iterator[tuple[Probe, Finding]]:
    for probe in catalogue(package):
        finding = run_probe(probe, subject)
        say(probe, finding)
        yield probe, finding


def markdown() -> str:
    """The page on the check, written from what the probes declare."""
    words = {
        "serves": "a token was generated",
        "info": "settings readable",
        "profile": "a profile",
        "measured": "the measured run",
    }
    lines = [
        "# The check after a restart",
        "",
        "Written by `python -m spectui.checks > docs/checks.md`; a test holds it to the code.",
        "",
        "`spectui check PROFILE|URL` asks these questions in this order. Exit code 0: all that was checked is good; 1: "
        "something is not; 3: not reachable. What cannot be known is *not checked*, with the reason, and fails "
        "nothing. Nothing is flushed.",
        "",
        "| probe | question | why it matters | needs |",
        "|---|---|---|---|",
    ]
    for probe in catalogue():
        needs = ", ".join(words.get(need, need) for need in probe.needs) or "–"
        lines.append(f"| `{probe.name}` | {probe.title} | {probe.error or probe.why} | {needs} |")
    return "\n".join(lines) + "\n" + _FROM_LAUNCH_TO_CHECK


_FROM_LAUNCH_TO_CHECK = """
## From a launch to a check

```
spectui launch mine                                              # a profile; its server gets the profile's name
spectui run mine --workload json --pass both --save-evidence     # cold and warm intervals, into the profile
spectui stop mine; spectui launch mine                           # or whatever restarts it
spectui check mine                                               # against the cold interval: the store is empty
spectui check mine --feed                                        # NGRAM: feeds first, against the warm interval
spectui check mine --watch 3600                                  # every hour, with fresh prompts
```

`spectui compare A B --save-evidence` writes into the profiles of both sides, `spectui profiles save NAME --from RUN`
adds a run that is stored already, and `spectui profiles save NAME --from URL` makes a profile of a server that spectui
did not start. What is measured must be the profile's own setting, or nothing is written.

## What it is held against

The newest evidence of the same workload, at the lowest concurrency that it holds. Accept length and step time are
ratios of sums with an interval from leaving out one prompt at a time. Where the run that the evidence came from is
still stored and the same prompts are sent again, they are compared prompt by prompt, which sees far smaller shifts;
each answer says which shift it could have seen. Shifts below 3 % of accept length and 10 % of step time are not called
one: a restart alone moves a step time by several per cent.

| algorithm, and what its store holds | held against |
|---|---|
| EAGLE family, STANDALONE, DFLASH and others that learn nothing | the stored pass |
| NGRAM, empty: a server just restarted or flushed | the first prompts of the cold pass |
| NGRAM, fed by `--feed` | the warm pass |
| NGRAM, text of others or of earlier checks | between cold and warm: only a value below cold is not good |

Prompts rotate: none is sent twice to one server as long as there are others, because an n-gram store would know the
answer. Six checks of one kind or more also show how accept length drifts; a fall that is shown, and is more than 5 %,
is not good though each check by itself was inside its interval. Checks from before the newest evidence do not count.
"""
