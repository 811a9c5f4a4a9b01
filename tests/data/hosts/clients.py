"""Stand-ins for ``docker``, ``srun`` and ``ssh``, by the name they are called: what they start runs elsewhere.

As with the real ones, that is no child of theirs and has no terminal of theirs. ``docker`` hands SIGTERM on unless it
has a terminal, and its container outlives it; ``srun`` hands it on and passes its environment; ``ssh`` hands nothing
on, and only with ``-tt`` does its end hang the other side up. State lies in the folder CLIENTS_STATE.
"""

import contextlib
import json
import os
import signal
import sys
import time
import uuid
from pathlib import Path

STATE = Path(os.environ["CLIENTS_STATE"])
VALUED = ("--name", "--gpus", "--network", "--ipc", "--label", "--gpus-per-task", "-p")


def elsewhere(command, env, *, kind, labels=(), hang_up=False):
    """Starts it as nobody's child; returns its folder, once its pid is in there."""
    place = STATE / (uuid.uuid4().hex * 2)
    place.mkdir(parents=True)
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.close(write)
            os.set_inheritable(read, True)
            told = json.dumps([str(place), command, env, list(labels), kind, read if hang_up else None])
            clean = {name: os.environ[name] for name in ("PATH", "CLIENTS_STATE")}  # nothing of the caller's
            os.execve(sys.executable, [sys.executable, "-SE", sys.argv[0], "keep", told], clean)
        os._exit(0)
    os.wait()
    os.close(read)  # the write end stays open as long as this process lives
    while not (place / "about").exists():
        time.sleep(0.005)
    return place


def keep(words):
    run(*json.loads(words[0]))


def run(place, command, env, labels, kind, line):
    place = Path(place)
    log = os.open(place / "log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        for number in (1, 2):
            os.dup2(log, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.closerange(3, 64)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.execvpe(command[0], command, env)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    about = place / "about.new"
    about.write_text(json.dumps({"pid": pid, "labels": labels, "kind": kind}))
    about.rename(place / "about")
    if line is not None:
        os.set_blocking(line, False)
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        try:
            if line is not None and os.read(line, 1) == b"":
                os.killpg(pid, signal.SIGHUP)
                line = None
        except BlockingIOError:
            pass
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    (place / "code").write_text(str(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def follow(place):
    """Passes its output on until it has ended; exits as it did."""
    shown = 0
    while True:
        over = (place / "code").exists() and (place / "code").read_text()
        data = (place / "log").read_bytes()[shown:]
        shown += len(data)
        os.write(1, data)
        if over:
            code = int(over)
            sys.exit(128 - code if code < 0 else code)
        time.sleep(0.01)


def about(place):
    return json.loads((place / "about").read_text())


def options(words):
    """(options, the rest)."""
    found = []
    while words and words[0].startswith("-"):
        found.append(words.pop(0))
        if found[-1] in VALUED:
            found.append(words.pop(0))
    return found, words


def hand_on(place):
    signal.signal(signal.SIGTERM, lambda *_: os.kill(about(place)["pid"], signal.SIGTERM))


def docker(words):
    order = words.pop(0)
    if order == "run":
        given, rest = options(words)
        labels = [word[len("--label=") :] for word in given if word.startswith("--label=")]
        place = elsewhere(rest[1:], {"PATH": os.environ["PATH"]}, kind="docker", labels=labels)
        if "-t" not in given:
            hand_on(place)
        follow(place)
    running = [place for place in STATE.iterdir() if (place / "about").exists() and not (place / "code").exists()]
    running = [place for place in running if about(place)["kind"] == "docker"]
    if order == "ps":
        label = words[words.index("--filter") + 1].removeprefix("label=")
        sys.stdout.write("".join(place.name + "\n" for place in running if label in about(place)["labels"]))
        return
    limit = float(words[words.index("-t") + 1]) if "-t" in words else 0.0
    for place in [place for place in running if place.name in words]:
        if order == "stop":
            os.kill(about(place)["pid"], signal.SIGTERM)
            until = time.monotonic() + limit
            while time.monotonic() < until and not (place / "code").exists():
                time.sleep(0.01)
        if not (place / "code").exists():
            os.killpg(about(place)["pid"], signal.SIGKILL)
        while not (place / "code").exists():
            time.sleep(0.01)


def srun(words):
    _, rest = options(words)
    place = elsewhere(rest, dict(os.environ), kind="srun")
    hand_on(place)
    follow(place)


def ssh(words):
    given, rest = options(words)
    command = ["sh", "-c", "exec " + " ".join(rest[1:])]
    follow(elsewhere(command, {"PATH": os.environ["PATH"]}, kind="ssh", hang_up="-tt" in given))


roles = {"docker": docker, "srun": srun, "ssh": ssh}
if sys.argv[1] == "keep":
    keep(sys.argv[2:])
else:
    roles[Path(sys.argv[0]).name](sys.argv[1:])
