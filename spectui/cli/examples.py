"""Examples of a command, dealt out to the help of its parts: each part shows its own."""

from __future__ import annotations

import argparse


def deal_out(parser: argparse.ArgumentParser, command: str, examples: str) -> None:
    """Gives each part of ``command`` the lines of ``examples`` that begin with it, and its help text as description."""
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        told = {part.dest: part.help for part in action._choices_actions}
        for name, part in action.choices.items():
            part.description = part.description or told.get(name)
            part.formatter_class = argparse.RawDescriptionHelpFormatter
            mine = of_part(examples, f"{command} {name}")
            part.epilog = "\n".join(["examples:", *mine]) if mine else None


def of_part(examples: str, words: str) -> list[str]:
    """The lines of one command, ``runs prune`` say."""
    wanted = ["spectui", *words.split()]
    return [line for line in examples.splitlines() if line.split()[: len(wanted)] == wanted]
