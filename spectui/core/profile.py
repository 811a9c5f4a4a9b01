"""A tuning profile as values, and what can be wrong with one. Reading and writing files is in ``store/profiles.py``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spectui.core.settings import Value

SCHEMA = 1
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 30000


@dataclass(frozen=True, slots=True)
class Fault:
    where: str
    """Dotted path of the key; empty for the file as a whole."""
    text: str
    line: int | None = None
    level: str = "fault"
    """fault, or note for what is only worth saying."""

    def spell(self, file: str = "") -> str:
        """``file:line: key: what is wrong``, without the parts that are not known."""
        place = f"{file}:{self.line}" if file and self.line else file
        return ": ".join(part for part in (place, self.where, self.text) if part)


@dataclass(frozen=True, slots=True)
class ServerPart:
    command: str | tuple[str, ...] | None = None
    """How the server is started: text or words, with places such as ``{args}``; None is plain Python."""
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    host: str = DEFAULT_HOST
    port: int | None = None
    gpus: tuple[int | str, ...] | None = None
    """Indices or UUIDs for CUDA_VISIBLE_DEVICES; None leaves them alone."""
    model_path: str | None = None
    args: Mapping[str, Any] | tuple[str, ...] = field(default_factory=dict)
    """Further arguments of the server: a table by name, or words as they are typed."""
    api_key: str | None = None
    """Reference, never a key."""
    admin_api_key: str | None = None

    def arguments(self) -> dict[str, Any]:
        """The arguments as a table by field name, whichever way they are written; of words, the values are text."""
        if isinstance(self.args, Mapping):
            table = {str(key).replace("-", "_"): value for key, value in self.args.items()}
        else:
            table = _words_as_table(self.args)
        if self.model_path:
            table["model_path"] = self.model_path
        return table


@dataclass(frozen=True, slots=True)
class SpeculativePart:
    algorithm: str = "none"
    knobs: Mapping[str, Value] = field(default_factory=dict)
    """Neutral knobs, those of sub-tables with a dot (``ngram.capacity``)."""
    plugin: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    name: str
    notes: str | None = None
    server: ServerPart = field(default_factory=ServerPart)
    speculative: SpeculativePart = field(default_factory=SpeculativePart)
    workload: Mapping[str, Any] = field(default_factory=dict)
    evidence: tuple[Mapping[str, Any], ...] = ()
    schema: int = SCHEMA
    path: str | None = None
    """Where it was read from."""
    digest: str | None = None
    """Of the file's bytes as read; a save to the same place is refused when they have changed."""
    remarks: tuple[Fault, ...] = ()
    """Unknown keys and the like."""

    @property
    def url(self) -> str:
        """Where the server will be reached; an address for all interfaces is reached over loopback."""
        host = {"0.0.0.0": DEFAULT_HOST, "::": "[::1]", "": DEFAULT_HOST}.get(self.server.host, self.server.host)  # noqa: S104
        host = f"[{host}]" if ":" in host and not host.startswith("[") else host
        return f"http://{host}:{self.server.port or DEFAULT_PORT}"

    def as_table(self) -> dict[str, Any]:
        """The tables of the file, without anything that is unset."""
        server: dict[str, Any] = {}
        for key in ("command", "cwd", "host", "port", "gpus", "model_path", "api_key", "admin_api_key"):
            server[key] = getattr(self.server, key)
        server["env"] = dict(self.server.env)
        server["args"] = dict(self.server.args) if isinstance(self.server.args, Mapping) else self.server.args
        speculative: dict[str, Any] = {"algorithm": self.speculative.algorithm}
        if self.speculative.plugin:
            speculative["plugin"] = True
        for key, value in self.speculative.knobs.items():
            table, _, rest = key.rpartition(".")
            (speculative.setdefault(table, {}) if table else speculative)[rest] = value
        whole = {
            "schema": SCHEMA,
            "name": self.name,
            "notes": self.notes,
            "server": server,
            "speculative": speculative,
            "workload": dict(self.workload),
            "evidence": [dict(entry) for entry in self.evidence],
        }
        tables: dict[str, Any] = without_unset(whole)
        return tables


class ProfileError(Exception):
    """A profile that cannot be used or saved, with everything that is wrong with it."""

    def __init__(self, file: str, faults: tuple[Fault, ...]) -> None:
        self.file = file
        self.faults = faults
        super().__init__("\n".join(self.lines))

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(fault.spell(self.file) for fault in self.faults)


def without_unset(thing: Any) -> Any:
    """The same without None, and without tables and lists that are empty then. TOML has no word for unset."""
    if isinstance(thing, Mapping):
        table = {str(key): without_unset(value) for key, value in thing.items()}
        return {key: value for key, value in table.items() if value is not None and value != {} and value != []}
    if isinstance(thing, (list, tuple)):
        return [without_unset(item) for item in thing if item is not None]
    return thing


def _words_as_table(words: tuple[str, ...]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    flag = None
    for word in words:
        if word.startswith("--"):
            flag, equals, value = word[2:].partition("=")
            flag = flag.replace("-", "_")
            table[flag] = _typed(value) if equals else True
        elif flag is not None:
            have = table[flag]
            before = [] if have is True else have if isinstance(have, list) else [have]
            table[flag] = [*before, _typed(word)] if before else _typed(word)
    return table


def _typed(word: str) -> Any:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


_OLD_NAMES = {"spec": "speculative", "note": "notes"}
_OLD_PREFIXES = ("ngram", "dflash", "dspark", "uno")


def migrate(tables: Mapping[str, Any], lines: Mapping[str, int]) -> tuple[dict[str, Any], dict[str, int], bool]:
    """Tables of an older schema as those of the present one, with their line numbers; and whether anything changed.

    Schema 0 called the tables ``[spec]`` and ``note``, and wrote ``dflash_block_size`` for ``dflash.block_size``.
    """
    old = isinstance(tables.get("spec"), Mapping) and "speculative" not in tables
    if not old and tables.get("schema") != 0:
        return dict(tables), dict(lines), False
    renamed = {_OLD_NAMES.get(key, key): value for key, value in tables.items()}
    renamed["schema"] = SCHEMA
    moved = {}
    knobs = renamed.get("speculative")
    if isinstance(knobs, Mapping):
        table: dict[str, Any] = {}
        for key, value in knobs.items():
            prefix, underscore, rest = key.partition("_")
            if underscore and prefix in _OLD_PREFIXES and not isinstance(value, Mapping):
                table.setdefault(prefix, {})[rest] = value
                moved[f"speculative.{key}"] = f"speculative.{prefix}.{rest}"
            else:
                table[key] = value
        renamed["speculative"] = table
    where = {}
    for path, line in lines.items():
        first, dot, rest = path.partition(".")
        name = f"{_OLD_NAMES.get(first, first)}{dot}{rest}"
        where[moved.get(name, name)] = line
    return renamed, where, True


def line_numbers(text: str) -> dict[str, int]:
    """Dotted path -> line, from 1, of the keys and tables in TOML text. Good enough to point at; never raises."""
    lines: dict[str, int] = {}
    table = ""
    counts: dict[str, int] = {}
    quote = ""
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if quote:
            quote = "" if stripped.count(quote) % 2 else quote
            continue
        if stripped.startswith("#") or not stripped:
            continue
        if stripped.startswith("[["):
            name = _dotted(stripped[2:].partition("]]")[0])
            table = f"{name}[{counts.get(name, 0)}]"
            counts[name] = counts.get(name, 0) + 1
            lines.setdefault(table, number)
        elif stripped.startswith("["):
            table = _dotted(stripped[1:].partition("]")[0])
            lines.setdefault(table, number)
        else:
            key, equals, value = stripped.partition("=")
            if equals and not any(sign in key for sign in "{[,("):
                name = f"{table}.{_dotted(key)}" if table else _dotted(key)
                lines.setdefault(name, number)
            for sign in ('"""', "'''"):
                if value.count(sign) % 2:
                    quote = sign
    return lines


def _dotted(key: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in key.split("."))
