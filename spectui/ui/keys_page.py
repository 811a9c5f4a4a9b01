"""The page on keys in the docs, from the table that the bindings come from: ``python -m spectui.ui.keys_page``."""

from __future__ import annotations

import sys

from spectui.ui.commands import COMMANDS, Command, key_word
from spectui.ui.themes import KNOWN

_SCREENS = (
    ("home", "Home", "screen_home"),
    ("servers", "Servers", "screen_servers"),
    ("workloads", "Workloads", "screen_workloads"),
    ("compare", "Compare", "screen_compare"),
    ("runs", "Runs", "screen_runs"),
    ("profiles", "Profiles", "screen_profiles"),
    ("check", "Check", "screen_check"),
    ("sweep", "Sweep", "screen_sweep"),
    ("log", "Log", ""),
)


def markdown() -> str:
    """The whole page."""
    lines = [
        "# Keys",
        "",
        "Written by `python -m spectui.ui.keys_page > docs/keys.md`; a test holds it to the code. `?` shows the same "
        "on the screen, and the bottom row those that do something at the moment.",
        "",
        "Each key can be changed by its name, in the table `[keys]` of `config.toml` (`spectui doctor` says where it "
        f"is and what in it is wrong); `theme` is one of {', '.join(f'`{name}`' for name in sorted(KNOWN))}:",
        "",
        "```toml",
        'theme = "spectui-light"',
        "",
        "[keys]",
        'run = "f5"',
        "```",
        "",
        "In lists the arrows, page keys, `home` and `end` move. In forms `←` and `→` step through choices and letters "
        "are typed.",
    ]
    lines += _table("Everywhere", [c for c in COMMANDS if not c.where])
    by_id = {c.id: c for c in COMMANDS}
    for name, title, opened in _SCREENS:
        mine = [c for c in COMMANDS if name in c.where]
        if mine:
            by = f" (key `{key_word(by_id[opened])}`)" if opened in by_id else ""
            lines += _table(f"{title}{by}", mine)
    return "\n".join(lines) + "\n"


def _table(title: str, commands: list[Command]) -> list[str]:
    lines = ["", f"## {title}", "", "| key | name | what it does |", "|---|---|---|"]
    return lines + [f"| `{key_word(c)}` | `{c.id}` | {c.help} |" for c in commands]


if __name__ == "__main__":
    sys.stdout.write(markdown())
