"""SGLang's command line, and the settings that come out of it.

The fields are those that a server names in ``/server_info``: each is an argument of the launcher. Resolution follows
srt/server_args.py and srt/arg_groups/speculative_hook.py of 0.5.15, with the differences of other versions.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from spectui.engines.sim import dialect as dialects
from spectui.engines.sim.dialect import Dialect

CONTEXT_LENGTH = 8192
FAILURES = ("oom", "port", "draft", "assert", "hang", "slow")

_ALIASES = {
    "model_path": ["--model"],
    "tp_size": ["--tensor-parallel-size", "--tp"],
    "dp_size": ["--data-parallel-size", "--dp"],
    "pp_size": ["--pipeline-parallel-size", "--pp"],
    "ep_size": ["--expert-parallel-size", "--ep"],
    "speculative_draft_model_path": ["--speculative-draft-model"],
    "speculative_draft_window_size": ["--speculative-dflash-draft-window-size"],
    "cuda_graph_max_bs_decode": ["--cuda-graph-max-bs"],
    "cuda_graph_bs_decode": ["--cuda-graph-bs"],
}
_LISTS = frozenset(("cuda_graph_bs_decode", "cuda_graph_bs_prefill", "lora_paths", "lora_target_modules"))


@dataclass(slots=True)
class SimOptions:
    """What only the simulated server knows."""

    dialect: Dialect
    speed: float = 1.0
    startup_s: float = 1.0
    profile: str = "recorded"
    fail: str | None = None
    seed: int = 0
    differ: str = ""


@dataclass(slots=True)
class Launch:
    """A parsed command line: SGLang's fields as resolved, and the lines that resolving printed."""

    args: dict[str, Any]
    internal: dict[str, Any]
    """Fields that only ``internal_states`` shows."""
    sim: SimOptions
    plain_lines: list[str] = field(default_factory=list)
    """Printed before the log is set up, without a time."""
    log_lines: list[str] = field(default_factory=list)
    argv: list[str] = field(default_factory=list)

    @property
    def algorithm(self) -> str | None:
        value = self.args["speculative_algorithm"]
        return None if value is None else str(value)

    @property
    def max_running(self) -> int:
        """Requests that decode together; the rest waits."""
        value = self.args["max_running_requests"]
        return 4096 if value is None else int(value)

    @property
    def context_length(self) -> int:
        return int(self.args["context_length"] or CONTEXT_LENGTH)

    @property
    def model_name(self) -> str:
        return str(self.args["served_model_name"])


class BadArguments(Exception):
    """A rule of SGLang's own argument check was broken; the server ends with exit code 1."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def template() -> dict[str, Any]:
    text = resources.files("spectui.engines.sim").joinpath("data/server_args.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def _fields(dialect: Dialect, known: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, default in known.items():
        if dialect.number < dialects.FIRST_SEEN.get(name, (0, 0, 0)):
            continue
        if dialect.number > dialects.LAST_SEEN.get(name, (9, 0, 0)):
            continue
        out[name] = default
    for name, (first, last, default) in dialects.OWN_FIELDS.items():
        if first <= dialect.number <= last:
            out[name] = default
    return out


def _value(name: str, default: Any, text_words: frozenset[str]) -> Any:
    """How an argument's text becomes its value: by the default's type, else by what the name says."""
    if isinstance(default, int) and not isinstance(default, bool):
        return int
    if isinstance(default, float):
        return float
    if isinstance(default, dict):
        return json.loads
    if isinstance(default, str) or text_words & set(name.split("_")):
        return str

    def number_or_text(text: str) -> int | float | str:
        for kind in (int, float):
            try:
                return kind(text)
            except ValueError:
                continue
        return text

    number_or_text.__name__ = "value"
    return number_or_text


_EXAMPLES = """examples:
  spectui sim --model-path any --port 30000 --enable-metrics
  spectui sim --model-path any --speculative-algorithm NGRAM --speculative-num-draft-tokens 8 --enable-metrics
  spectui sim --model-path any --sglang-version 0.5.9 --sim-speed 2
  spectui sim --model-path any --sim-fail oom
"""


def _parser(dialect: Dialect, fields: dict[str, Any], text_words: frozenset[str]) -> argparse.ArgumentParser:
    # SGLang's own usage names all its arguments, 330 lines before the one that says what is wrong.
    usage = "launch_server.py --model-path MODEL_PATH [SGLang's other arguments] [--sim-... arguments]"
    parser = argparse.ArgumentParser(
        prog="launch_server.py",
        usage=usage,
        allow_abbrev=False,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    optional_ints = {"max_running_requests", "speculative_num_steps", "speculative_eagle_topk", "context_length",
                     "speculative_num_draft_tokens", "speculative_dflash_block_size", "random_seed",
                     "chunked_prefill_size", "cuda_graph_max_bs_decode", "max_total_tokens"}  # fmt: skip
    for name, default in fields.items():
        flags = ["--" + name.replace("_", "-"), *_ALIASES.get(name, ())]
        if name == "cuda_graph_max_bs_decode" and dialect.since(0, 5, 23):
            flags = ["--cuda-graph-max-bs-decode"]
        if isinstance(default, bool):
            parser.add_argument(*flags, dest=name, action="store_true", default=default)
        elif isinstance(default, list) or name in _LISTS:
            parser.add_argument(*flags, dest=name, nargs="*", type=_value(name, None, text_words), default=default)
        elif name == "speculative_algorithm" and not dialect.since(0, 5, 12):
            names = [a for a, first in dialects.ALGORITHMS.items() if first <= dialect.number]
            parser.add_argument(*flags, dest=name, choices=names, default=default)
        elif name == "speculative_ngram_match_type":
            parser.add_argument(*flags, dest=name, choices=["BFS", "PROB"], default=default)
        else:
            kind = (
                int
                if name in optional_ints
                else float
                if name == "mem_fraction_static"
                else _value(name, default, text_words)
            )
            parser.add_argument(*flags, dest=name, type=kind, default=default, required=name == "model_path")
    parser.add_argument("--disable-piecewise-cuda-graph", action="store_true")
    if not dialect.since(0, 5, 15):
        parser.add_argument("--cuda-graph-max-bs", dest="cuda_graph_max_bs_decode", type=int)
    sim = parser.add_argument_group("simulated server")
    sim.add_argument("--sglang-version", default=dialect.version, metavar="VERSION", help="whose manners to take")
    sim.add_argument("--sim-speed", type=float, default=1.0, metavar="X", help="2 is twice as fast")
    sim.add_argument("--sim-startup", type=float, default=1.0, metavar="SECONDS", help="how long a start takes")
    sim.add_argument("--sim-profile", choices=["recorded", "kimi"], default="recorded", help="whose step times")
    sim.add_argument("--sim-fail", choices=FAILURES, default=None, help="fail as the real one does")
    sim.add_argument("--sim-differ", choices=["near", "far"], default="", help="half of the greedy answers part from "
                     "another server's: where two tokens are nearly as likely, or where they must not")  # fmt: skip
    sim.add_argument("--sim-seed", type=int, default=0, metavar="N", help="for sampled text and random_seed")
    return parser


def parse(argv: list[str]) -> Launch:
    """Command line to resolved settings.

    Raises:
        SystemExit: with 2 for what argparse refuses, as SGLang's own parser does.
        BadArguments: a combination that SGLang's argument check refuses.
    """
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--sglang-version", default=dialects.DEFAULT)
    version = first.parse_known_args(argv)[0].sglang_version
    try:
        dialect = dialects.parse(version)
    except ValueError as problem:
        first.error(f"argument --sglang-version: {problem}")
    base = template()
    fields = _fields(dialect, base["fields"])
    parser = _parser(dialect, fields, frozenset(base["text_words"]))
    space = vars(parser.parse_args(argv))
    if space["sim_speed"] <= 0 or space["sim_startup"] < 0:
        parser.error("--sim-speed must be above 0, and --sim-startup 0 or more")
    if isinstance(port := space.get("port"), int) and not 0 <= port <= 65535:
        parser.error(f"argument --port: must be from 0 to 65535, not {port}")
    args = {name: space[name] for name in fields}
    sim = SimOptions(dialect, space["sim_speed"], space["sim_startup"], space["sim_profile"], space["sim_fail"],
                     space["sim_seed"], space["sim_differ"])  # fmt: skip
    launch = Launch(args, dict(base["internal"]), sim, argv=list(argv))
    _warn_of_old_names(launch, space)
    from spectui.engines.sim.resolve import resolve

    resolve(launch, base["prefill_graph"], piecewise=not space["disable_piecewise_cuda_graph"])
    return launch


def _warn_of_old_names(launch: Launch, space: dict[str, Any]) -> None:
    if launch.sim.dialect.since(0, 5, 10):
        launch.plain_lines.append(
            "/opt/site/sglang/launch_server.py:55: UserWarning: 'python -m sglang.launch_server' is still supported, "
            "but 'sglang serve' is the recommended entrypoint.\n"
            "  Example: sglang serve --model-path <model> [options]\n  warnings.warn("
        )
    if not launch.sim.dialect.since(0, 5, 15):
        return
    old = {"--cuda-graph-max-bs": "--cuda-graph-max-bs-decode"}
    for name, new in old.items():
        if any(a == name or a.startswith(name + "=") for a in launch.argv):
            launch.plain_lines.append(_deprecated(name, new))
    if space["disable_piecewise_cuda_graph"]:
        launch.plain_lines.append(
            _deprecated("--disable-piecewise-cuda-graph", "--cuda-graph-backend-prefill=disabled")
        )


def _deprecated(name: str, new: str) -> str:
    return f"\x1b[1;33m'{name}' is deprecated and will be removed in a future release. Use '{new}' instead.\x1b[0m"
