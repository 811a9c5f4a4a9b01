"""Every key and command of the screen, one row each: bindings, footer, palette, help and docs come from this table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    id: str
    """Name in the config's ``[keys]`` table, and of the action."""
    key: str
    label: str
    """Two words at most: the footer has 80 columns."""
    help: str
    group: str
    """Group in palette and help."""
    footer: bool = False
    """Shown in the footer of the home screen."""
    where: tuple[str, ...] = ()
    """Screens that it belongs to; empty means everywhere."""


COMMANDS: tuple[Command, ...] = (
    Command(
        "apply",
        "enter",
        "apply",
        "Apply the staged change: relaunch, or set it live where it is hot",
        "flip",
        True,
        ("home",),
    ),
    Command("drop", "escape", "drop", "Drop the staged change", "flip", True, ("home",)),
    Command(
        "knob_down", "left_square_bracket", "[ less", "Stage less of the algorithm's knob", "flip", False, ("home",)
    ),
    Command(
        "knob_up", "right_square_bracket", "] more", "Stage more of the algorithm's knob", "flip", False, ("home",)
    ),
    Command("algorithm", "n", "algorithm", "Stage another algorithm for the arm in focus", "flip", True, ("home",)),
    Command("settings", "e", "settings", "Every setting of the algorithm, in a form", "flip", False, ("home",)),
    Command("back", "u", "go back", "Go back to the last setting that was ready", "flip", False, ("home",)),
    Command("focus_arm", "tab", "other arm", "Move to the other arm", "arms", False, ("home",)),
    Command(
        "choose_server",
        "o",
        "server",
        "Choose a server, profile or stored run for the arm in focus",
        "arms",
        True,
        ("home",),
    ),
    Command("workload", "w", "workload", "Choose the workload, pass and concurrency", "measure", True, ("home",)),
    Command("run", "r", "run", "Measure the arm in focus", "measure", True, ("home",)),
    Command("compare", "c", "compare", "Measure both arms in turn and say which leads", "measure", True, ("home",)),
    Command(
        "feed",
        "f",
        "feed",
        "Flush, feed the store until it is steady, then measure (warm pass)",
        "measure",
        False,
        ("home",),
    ),
    Command("stop", "x", "stop", "Stop the run; what was measured is kept", "measure", False, ("home",)),
    Command("save", "s", "save profile", "Save the arm in focus as a profile", "keep", True, ("home",)),
    Command(
        "check", "k", "check", "Check the server of the arm in focus, as after a restart", "measure", True, ("home",)
    ),
    Command("chart", "m", "chart", "Switch the chart between tok/s and accept length", "look", False, ("home",)),
    Command("log", "l", "log", "The log of the arm in focus", "look", False, ("home",)),
    Command(
        "command_line",
        "y",
        "command",
        "Write the launch command of the arm in focus to a file",
        "keep",
        False,
        ("home",),
    ),
    Command("screen_home", "1", "home", "Both arms, live", "screens"),
    Command("screen_servers", "2", "servers", "Servers on this node: found and managed", "screens"),
    Command("screen_workloads", "3", "workloads", "What each workload feeds, and which algorithm it fits", "screens"),
    Command("screen_compare", "4", "compare", "The comparison by concurrency", "screens"),
    Command("screen_runs", "5", "runs", "Stored runs", "screens"),
    Command("screen_profiles", "6", "profiles", "Profiles and the evidence they carry", "screens"),
    Command("screen_check", "7", "check", "The last check, probe by probe", "screens"),
    Command("help", "question_mark", "help", "Every key", "look", True),
    Command("quit", "q", "quit", "Leave; servers and runs go on", "look", True),
)

BY_ID = {command.id: command for command in COMMANDS}

KEY_WORDS = {
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "question_mark": "?",
    "escape": "esc",
}
"""How a key is written for people, where Textual's name is another."""


def key_word(command: Command, keys: dict[str, str] | None = None) -> str:
    """The key of a command in words, the user's own binding first."""
    key = (keys or {}).get(command.id, command.key)
    return KEY_WORDS.get(key, key)


def for_screen(name: str) -> tuple[Command, ...]:
    return tuple(c for c in COMMANDS if not c.where or name in c.where)
