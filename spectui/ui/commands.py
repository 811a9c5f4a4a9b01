"""Every key and command of the screen, one row each: bindings, footer, palette, help and docs come from this table."""

from __future__ import annotations

from typing import NamedTuple

from textual.binding import Binding, BindingType


class Command(NamedTuple):
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

    @property
    def word(self) -> str:
        """The label without the bracket that stands in some of them."""
        return self.label.removeprefix("[ ").removeprefix("] ")


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
    Command("drop", "escape", "drop", "Drop the staged change; back from cursor and zoom", "flip", True, ("home",)),
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
    Command(
        "log",
        "l",
        "log",
        "The end of each server's log; of the arm in focus where room is short",
        "look",
        False,
        ("home",),
    ),
    Command("cursor_left", "left", "cursor", "The values of the charts at an earlier moment", "look", False, ("home",)),
    Command("cursor_right", "right", "later", "The values of the charts at a later moment", "look", False, ("home",)),
    Command("zoom_in", "plus", "zoom", "Show less time in the charts, around the cursor", "look", False, ("home",)),
    Command("zoom_out", "minus", "zoom out", "Show more time in the charts", "look", False, ("home",)),
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
    Command("picture", "ctrl+e", "picture", "Save this screen as an SVG file, without keys", "keep"),
    Command("palette", "ctrl+p", "commands", "Every command, by name", "look", True),
    Command("help", "question_mark", "help", "Every key", "look", True),
    Command("quit", "q", "quit", "Leave; servers and runs go on", "look", True),
)

LISTS = ("servers", "workloads", "runs", "profiles")
PAGES = ("servers", "workloads", "compare", "runs", "profiles", "check", "sweep", "log")

COMMANDS += (
    Command("server_start", "n", "launch", "Start a server from a profile", "arms", True, ("servers", "profiles")),
    Command("server_stop", "x", "stop", "Stop a server that spectui started, step by step", "arms", True, ("servers",)),
    Command(
        "server_adopt", "t", "take over", "Relaunch a found server as one of spectui's", "arms", True, ("servers",)
    ),
    Command(
        "server_leftovers",
        "e",
        "end left-overs",
        "End processes that a dead server left",
        "arms",
        True,
        ("servers",),
    ),
    Command(
        "server_log", "l", "log", "The whole log of the server under the cursor", "look", True, ("servers", "check")
    ),
    Command(
        "take", "enter", "take", "Take the workload and these options for the next run", "measure", True, ("workloads",)
    ),
    Command(
        "open",
        "enter",
        "open",
        "Put it on an arm, open it, or show more of it",
        "look",
        True,
        ("servers", "runs", "profiles"),
    ),
    Command(
        "put_a", "a", "on A", "Put what is under the cursor on arm A", "arms", True, ("servers", "runs", "profiles")
    ),
    Command(
        "put_b", "b", "on B", "Put what is under the cursor on arm B", "arms", True, ("servers", "runs", "profiles")
    ),
    Command("run_mark", "space", "mark", "Mark a run; two marked ones are compared", "keep", True, ("runs",)),
    Command("run_compare", "c", "compare", "Compare the two marked runs", "measure", True, ("runs",)),
    Command("run_pin", "p", "pin", "Pin a run to the top, or unpin it", "keep", True, ("runs",)),
    Command("run_tags", "t", "tags", "Change the tags of a run", "keep", True, ("runs",)),
    Command("run_note", "o", "note", "Write a note on a run", "keep", True, ("runs",)),
    Command("pick_runs", "p", "pick runs", "Choose two stored runs to compare", "measure", True, ("compare",)),
    Command("next_pass", "right", "next curve", "The warm-up curve of the next pass", "look", True, ("compare",)),
    Command("last_compared", "d", "last", "Back to the last comparison of the home screen", "look", True, ("compare",)),
    Command("profile_check", "k", "check", "Check the server of this profile", "measure", True, ("profiles",)),
    Command("profile_delete", "d", "delete", "Delete a profile; its name must be typed", "keep", True, ("profiles",)),
    Command("check_again", "r", "run again", "Check the server of the arm in focus", "measure", True, ("check",)),
    Command("check_feed", "f", "with feeding", "Check again, and feed the store first", "measure", True, ("check",)),
    Command("sweep_start", "enter", "start", "Start the sweep as planned", "measure", True, ("sweep",)),
    Command(
        "sweep_new", "ctrl+n", "new sweep", "Plan another sweep, or back to the last one", "measure", True, ("sweep",)
    ),
    Command("sweep_stop", "ctrl+x", "stop", "Stop the sweep; what was measured is kept", "measure", True, ("sweep",)),
    Command("sweep_save", "ctrl+s", "save best", "Save the best setting as a profile", "keep", True, ("sweep",)),
    Command("log_follow", "f", "follow", "Follow the log, or hold it still", "look", True, ("log",)),
    Command("log_next", "n", "next match", "The next line that matches", "look", True, ("log",)),
    Command("log_before", "p", "match before", "The line that matches before this one", "look", True, ("log",)),
    Command(
        "filter",
        "slash",
        "filter",
        "Show what matches the letters that follow; in a log, search",
        "look",
        True,
        (*LISTS, "log"),
    ),
    Command("other_part", "tab", "other part", "Move between list, form and details", "look", False, PAGES),
    Command("reread", "r", "read again", "Read what is shown anew", "look", False, (*LISTS, "compare")),
    Command("leave", "escape", "back", "Back to where you came from", "look", False, PAGES),
    Command("screen_sweep", "8", "sweep", "Many settings, planned, one after another", "screens"),
)

BY_ID = {command.id: command for command in COMMANDS}

KEY_WORDS = {
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "question_mark": "?",
    "escape": "esc",
    "slash": "/",
    "left": "←",
    "right": "→",
    "plus": "+",
    "minus": "-",
    "greater_than_sign": ">",
    "less_than_sign": "<",
}
"""How a key is written for people, where Textual's name is another."""


def key_word(command: Command, keys: dict[str, str] | None = None) -> str:
    """The key of a command in words, the user's own binding first."""
    key = (keys or {}).get(command.id, command.key)
    return KEY_WORDS.get(key, key)


def for_screen(name: str) -> tuple[Command, ...]:
    return tuple(c for c in COMMANDS if not c.where or name in c.where)


def bindings(screen: str) -> list[BindingType]:
    """The bindings of a screen, or with "" those that hold everywhere. The config remaps them by id."""
    wanted = [c for c in COMMANDS if (screen in c.where if screen else not c.where)]
    return [Binding(c.key, f"app.do('{c.id}')", c.label, show=False, id=c.id) for c in wanted]
