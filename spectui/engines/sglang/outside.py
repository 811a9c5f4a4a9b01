"""Failures that are none of the server's own: the shell, ssh, containers, Slurm, the driver, the disk, the hub."""

from __future__ import annotations

import re
from collections.abc import Iterable

_TABLE: tuple[tuple[str, re.Pattern[str], str], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE), hint)
    for kind, pattern, hint in (
        (
            "ssh",
            r"^ssh: |Permission denied \([\w,-]+\)|Host key verification failed|^(?:kex_exchange|client_loop)"
            r"|^Connection (?:to \S+ )?(?:closed|timed out|refused|reset)|remote host closed|^Pseudo-terminal",
            "The other node was not reached, or the line broke: try ssh -o BatchMode=yes HOST true",
        ),
        (
            "container name",
            r"container name .{0,200}already in use",
            "A container of that name is still there: remove it, or give this server another name",
        ),
        (
            "container image",
            r"manifest (?:for .{0,200} not found|unknown)|pull access denied|repository does not exist"
            r"|unable to find image .{0,200}\bdenied",
            "The image cannot be had: check its name and tag, and docker login",
        ),
        (
            "container GPUs",
            r"could not select device driver|nvidia-container-cli|unresolvable CDI devices|unknown .{0,20}runtime",
            "The container gets no GPU: the NVIDIA container toolkit is needed, and --gpus must name what is there",
        ),
        (
            "container",
            r"^(?:docker|podman|nerdctl): |Error response from daemon|cannot connect to the docker daemon|OCI runtime"
            r"|input device is not a TTY",
            "The container did not start: the line says why",
        ),
        (
            "Slurm",
            r"^srun: (?:error|fatal)|^slurmstepd: error",
            "Slurm refused or ended the step: see squeue and sinfo",
        ),
        ("sudo", r"^sudo: ", "sudo wants to ask something, and a server has no terminal: allow it without a password"),
        (
            "GPU driver",
            r"no NVIDIA driver|driver version is insufficient|no CUDA-capable device|invalid device ordinal"
            r"|No CUDA GPUs are available|driver/library version mismatch",
            "The server sees no such GPU, or no driver: check the gpus of the profile and nvidia-smi",
        ),
        (
            "disk full",
            r"No space left on device|Errno 28\b|Disk quota exceeded",
            "Free space where the log or the cache lies",
        ),
        (
            "hub access",
            r"gated repo|GatedRepoError|401 Client Error|403 Client Error|Invalid username or password",
            "The hub does not give out this model without a token: ask for access, and set HF_TOKEN by reference",
        ),
        (
            "missing module",
            r"No module named ['\w]",
            "A Python package is missing in the server's environment: install it there, or name its own interpreter",
        ),
        (
            "command",
            r"command not found|: not found$|cannot execute|Exec format error|: Permission denied$"
            r"|^(?:exec|bash|sh|env|srun|nohup|timeout)\b.{0,200}No such file or directory$",
            "The command of the profile could not be run there: check its program and its path",
        ),
    )
)
_SERVERS_OWN = re.compile(r"^\[\d{4}-|^(?:WARNING|INFO)\b|Ignore import error")
"""Lines that a server writes while all is well."""
_OF_AN_EXCEPTION = ("GPU driver", "disk full", "hub access")


def outside(lines: Iterable[str]) -> tuple[str, str, str] | None:
    """(kind, the line that shows it, hint) from the last lines of a log without any exception."""
    told = [line for line in lines if not _SERVERS_OWN.search(line)]
    for kind, pattern, hint in _TABLE:
        for line in told:
            if pattern.search(line):
                return kind, line, hint
    return None


def of_exception(line: str) -> tuple[str, str] | None:
    """(kind, hint) of an exception that is none of the server's making."""
    for kind, pattern, hint in _TABLE:
        if kind in _OF_AN_EXCEPTION and pattern.search(line):
            return kind, hint
    return None
