"""Shell completion, made from the commands' own parsers, so that it never names an option that is not there."""

from __future__ import annotations

import argparse
import importlib
import shlex
from dataclasses import dataclass, field, replace

EXAMPLES = """examples:
  source <(spectui completion bash)                         for this shell
  spectui completion bash > ~/.local/share/bash-completion/completions/spectui
  spectui completion zsh > "${fpath[1]}/_spectui"
  spectui completion fish > ~/.config/fish/completions/spectui.fish
"""


@dataclass(frozen=True, slots=True)
class Words:
    """What can follow a command: options, names of its parts, and the values of options that have a choice."""

    options: tuple[str, ...]
    parts: tuple[str, ...]
    choices: dict[str, tuple[str, ...]]
    files: tuple[str, ...]
    """Options, or ``*`` for arguments, that take a path."""
    valued: tuple[str, ...] = ()
    """Options that are followed by a value."""
    told: dict[str, str] = field(default_factory=dict)
    """Option or part -> what it does, for shells that show it."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=tuple(_WRITERS))


def run(args: argparse.Namespace) -> int:
    print(_WRITERS[args.shell](tree()), end="")
    return 0


def tree() -> dict[str, Words]:
    """Command, or ``command part`` -> its words. A command that cannot be loaded has none."""
    from spectui.cli import COMMANDS, add_screen_options

    found: dict[str, Words] = {}
    for name in COMMANDS:
        parser = argparse.ArgumentParser(prog=f"spectui {name}")
        try:
            module = importlib.import_module(f"spectui.cli.{name}")
            if hasattr(module, "arguments"):
                module.arguments(parser)
        except ImportError:
            found[name] = Words((), (), {}, ())
            continue
        found[name] = _words(parser)
        for part, inner in _parts(parser).items():
            found[f"{name} {part}"] = _words(inner)
    screen = argparse.ArgumentParser(prog="spectui")
    add_screen_options(screen)
    screen.add_argument("--version", action="store_true")
    top = _words(screen)
    found[""] = replace(top, parts=tuple(COMMANDS), told={**top.told, **COMMANDS})
    return found


def _parts(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _words(parser: argparse.ArgumentParser) -> Words:
    options: list[str] = []
    choices: dict[str, tuple[str, ...]] = {}
    files: list[str] = []
    valued: list[str] = []
    told: dict[str, str] = {}
    for action in parser._actions:
        names = [name for name in action.option_strings if name.startswith("--")]
        options += names
        told.update({name: (action.help or "") % vars(action) for name in names if action.help != argparse.SUPPRESS})
        if action.nargs != 0:
            valued += names
        if isinstance(action, argparse._SubParsersAction):
            told.update({part.dest: part.help or "" for part in action._choices_actions})
        if action.choices is not None and not isinstance(action, argparse._SubParsersAction):
            for name in names or ["*"]:
                choices[name] = tuple(str(choice) for choice in action.choices)
        if getattr(action.type, "__name__", "") == "Path":
            files += names or ["*"]
    if "--workload" in options:
        from spectui import workloads

        choices["--workload"] = workloads.names()
    return Words(tuple(options), tuple(_parts(parser)), choices, tuple(files), tuple(valued), told)


def bash(words: dict[str, Words]) -> str:
    lines = [
        "# bash completion for spectui; made by: spectui completion bash",
        "_spectui() {",
        "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} key=''",
        "  COMPREPLY=()",
        '  [ "$COMP_CWORD" -gt 1 ] && key=${COMP_WORDS[1]}',
        '  [ "$COMP_CWORD" -gt 2 ] && case "$key ${COMP_WORDS[2]}" in',
    ]
    parts = [key for key in words if " " in key]
    if parts:
        lines.append(f'    {"|".join(shlex.quote(key) for key in parts)}) key="$key ${{COMP_WORDS[2]}}" ;;')
    lines += ["    *) ;;", "  esac", '  case "$key:$prev" in']
    for key, one in words.items():
        for option, values in one.choices.items():
            if option != "*":
                lines.append(
                    f"    {shlex.quote(f'{key}:{option}')}) COMPREPLY=($(compgen -W {shlex.quote(' '.join(values))}"
                    ' -- "$cur")); return ;;'
                )
        for option in one.files:
            if option != "*":
                lines.append(f'    {shlex.quote(f"{key}:{option}")}) COMPREPLY=($(compgen -f -- "$cur")); return ;;')
    lines += ["    *) ;;", "  esac", '  case "$key" in']
    for key, one in words.items():
        every = [*one.parts, *one.choices.get("*", ()), *one.options]
        lines.append(f'    {shlex.quote(key)}) COMPREPLY=($(compgen -W {shlex.quote(" ".join(every))} -- "$cur")) ;;')
    lines += [
        "    *) ;;",
        "  esac",
        '  [ ${#COMPREPLY[@]} -eq 0 ] && COMPREPLY=($(compgen -f -- "$cur"))',
        "}",
        "complete -o filenames -F _spectui spectui",
    ]
    return "\n".join(lines) + "\n"


def zsh(words: dict[str, Words]) -> str:
    lines = [
        "#compdef spectui",
        "# zsh completion for spectui; made by: spectui completion zsh",
        "_spectui() {",
        "  local key='' prev=${words[CURRENT-1]}",
        "  (( CURRENT > 2 )) && key=${words[2]}",
        '  (( CURRENT > 3 )) && case "$key ${words[3]}" in',
    ]
    parts = [key for key in words if " " in key]
    if parts:
        lines.append(f'    ({"|".join(shlex.quote(key) for key in parts)}) key="$key ${{words[3]}}" ;;')
    lines += ["  esac", '  case "$key:$prev" in']
    for key, one in words.items():
        for option, values in one.choices.items():
            if option != "*":
                said = " ".join(shlex.quote(value) for value in values)
                lines.append(f"    ({shlex.quote(f'{key}:{option}')}) compadd -- {said}; return ;;")
        for option in one.files:
            if option != "*":
                lines.append(f"    ({shlex.quote(f'{key}:{option}')}) _files; return ;;")
    lines += ["  esac", '  case "$key" in']
    for key, one in words.items():
        every = [*one.parts, *one.choices.get("*", ()), *one.options]
        said = " ".join(shlex.quote(word) for word in every)
        lines.append(
            f"    ({shlex.quote(key)}) compadd -- {said}; _files ;;" if said else f"    ({shlex.quote(key)}) _files ;;"
        )
    lines += ["  esac", "}", "compdef _spectui spectui 2>/dev/null"]
    return "\n".join(lines) + "\n"


def fish(words: dict[str, Words]) -> str:
    parts = " ".join(_fish(key) for key in words if " " in key)
    lines = [
        "# fish completion for spectui; made by: spectui completion fish",
        f"set -g __spectui_parts {parts}",
        "function __spectui_at",
        "    set -l words (commandline -opc)",
        '    set -l key "$words[2]"',
        '    contains -- "$words[2] $words[3]" $__spectui_parts; and set key "$words[2] $words[3]"',
        '    string match -q -- "-*" "$key"; and set key ""',
        '    test "$key" = "$argv[1]"',
        "end",
    ]
    for key, one in words.items():
        head = f"complete -c spectui -n {_fish(f'__spectui_at {_fish(key)}')}"
        for part in (*one.parts, *one.choices.get("*", ())):
            lines.append(f"{head} -a {_fish(part)} -d {_fish(one.told.get(part, ''))}")
        for option in one.options:
            line = f"{head} -l {_fish(option[2:])} -d {_fish(one.told.get(option, ''))}"
            if option in one.choices:
                line += f" -x -a {_fish(' '.join(one.choices[option]))}"
            elif option in one.files:
                line += " -r -F"
            elif option in one.valued:
                line += " -x"
            lines.append(line)
    return "\n".join(lines) + "\n"


def _fish(text: str) -> str:
    """In single quotes, where fish knows two escapes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_WRITERS = {"bash": bash, "zsh": zsh, "fish": fish}
