from __future__ import annotations

import os
from pathlib import Path

import pytest

from spectui.hosts import command_lines, discover, templates
from spectui.hosts.discover import Row
from spectui.hosts.supervision import Ancestor, judge

LAUNCH = ("python3", "-m", "sglang.launch_server", "--model-path", "/m", "--port", "30001")
NOBODY = 1 << 22  # above every pid of this machine: nothing more can be looked up


@pytest.mark.parametrize(
    ("cmdline", "want"),
    [
        (LAUNCH, False),
        (("/venv/bin/python3.11", "-u", "-X", "dev", "-m", "sglang.launch_server"), False),
        (("python", "/src/sglang/launch_server.py", "--port", "1"), False),
        (("/venv/bin/python", "/venv/bin/sglang", "serve", "--model-path", "x"), False),
        (("sglang", "serve"), False),
        (("python -m sglang.launch_server --port 5",), False),
        (("python", "-m", "spectui.engines.sim", "--port", "1"), True),
        (("python", "-m", "spectui", "sim"), True),
        (("/venv/bin/python", "/venv/bin/spectui", "sim"), True),
        (("python", "-m", "spectui", "run"), None),
        (("grep", "sglang.launch_server"), None),
        (("vim", "sglang/launch_server.py"), None),
        (("bash", "-c", "python -m sglang.launch_server"), None),
        (("docker", "run", "image", "python3", "-m", "sglang.launch_server"), None),
        (("python", "-c", "print('sglang serve')"), None),
        (("sglang", "bench"), None),
        (("sglang::scheduler_TP0",), None),
        (("python",), None),
        ((), None),
    ],
)
def test_only_what_runs_a_server_is_one(cmdline: tuple[str, ...], want: bool | None) -> None:
    assert command_lines.matches(cmdline) is want


def test_settings_of_a_command_line() -> None:
    words = ["x", "--port=5", "--enable-metrics", "--api-key", "abc", "--cuda-graph-bs", "1", "2", "--seed", "-1", "--"]
    assert command_lines.settings_of(words) == {
        "port": "5",
        "enable-metrics": True,
        "cuda-graph-bs": "1 2",
        "seed": "-1",
    }


def test_a_tree_is_one_server_and_orphans_are_left_over(tmp_path: Path) -> None:
    rows = [
        Row(NOBODY + 1, 1, "python3", LAUNCH),
        Row(NOBODY + 2, NOBODY + 1, "python3", LAUNCH),  # a fork keeps its parent's command line
        Row(NOBODY + 3, NOBODY + 2, "sglang", ("sglang::scheduler_TP0",)),
        Row(NOBODY + 9, 1, "vim", ("vim", "launch_server.py")),
    ]
    found = discover.find(rows=rows, folder=tmp_path)
    assert [(f.pid, f.port, f.pids) for f in found] == [(NOBODY + 1, 30001, (NOBODY + 1, NOBODY + 2, NOBODY + 3))]
    assert found[0].listening is None
    assert found[0].record is None
    assert templates.template_of(found[0]).missing


def test_five_hundred_processes_are_read_by_their_command_line_only(tmp_path: Path) -> None:
    rows = [Row(NOBODY + i, 1, f"p{i}", ("worker", str(i))) for i in range(500)]
    assert discover.find(rows=rows, folder=tmp_path) == []


LOOP = "while true; do\n  python -m sglang.launch_server\ndone\n"


@pytest.mark.parametrize(
    ("cgroup", "kind"),
    [
        ("/system.slice/sglang.service", "systemd"),
        ("/user.slice/user-7.slice/user@7.service/app.slice/model.service", "systemd"),
        ("/user.slice/user-7.slice/user@7.service/tmux-spawn-1.scope", None),
        ("/user.slice/user-7.slice/session-3.scope", None),
        ("/system.slice/ssh.service", None),
        ("/system.slice/slurmstepd.scope/job_1/step_0/user/task_0", None),
        ("/system.slice/docker-0123abcd.scope", "container"),
        ("/kubepods.slice/kubepods-burstable.slice/cri-containerd-1.scope", "container"),
        ("/own", None),
    ],
)
def test_who_would_start_it_again_by_its_cgroup(cgroup: str, kind: str | None) -> None:
    got = judge(cgroup, "/own", [], 50)
    assert (got.kind if got else None) == kind


def test_inside_the_same_container_or_unit_the_cgroup_says_nothing() -> None:
    assert judge("/docker/abc", "/docker/abc", [], 50) is None
    got = judge("/", "/", [], 1)
    assert got is not None
    assert "ends the container" in got.sentence


def test_restart_loops_and_supervisors_are_named(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("# for ever\n" + LOOP)
    (tmp_path / "once.sh").write_text("# while we wait\nexec python -m sglang.launch_server\n")

    def shell(*words: str) -> Ancestor:
        return Ancestor(40, words[0].rsplit("/", 1)[-1], words, str(tmp_path))

    loop = judge("/", "/", [shell("bash", "run.sh")], 50)
    assert loop is not None
    assert loop.sentence == "run.sh (pid 40) may start it again: end that loop first, then relaunch"
    assert judge("/", "/", [shell("bash", "-c", LOOP)], 50) is not None
    assert judge("/", "/", [shell("timeout", "9"), shell("bash", "run.sh")], 50) is not None
    assert judge("/", "/", [shell("bash", "once.sh")], 50) is None
    assert judge("/", "/", [shell("-bash")], 50) is None
    assert judge("/", "/", [shell("bash", "gone.sh")], 50) is None
    daemon = judge("/", "/", [shell("python3", "/usr/bin/supervisord", "-n")], 50)
    assert daemon is not None
    assert daemon.kind == "supervisor"


def test_a_script_that_is_a_pipe_is_neither_waited_for_nor_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.sh")
    assert judge("/", "/", [Ancestor(40, "bash", ("bash", "run.sh"), str(tmp_path))], 50) is None
    # "bash <(...)": the number is one of the shell's own files. Ours of that number may be anything.
    ours, theirs = os.pipe()
    os.write(theirs, f"{LOOP}\n".encode())
    os.close(theirs)
    try:
        assert judge("/", "/", [Ancestor(1 << 30, "bash", ("bash", f"/dev/fd/{ours}"))], 50) is None
        assert os.read(ours, 5) == LOOP[:5].encode()
    finally:
        os.close(ours)


def test_a_script_that_was_handed_over_open_is_read(tmp_path: Path) -> None:
    script = tmp_path / "loop.sh"
    script.write_text(LOOP)
    with script.open() as held:
        shell = Ancestor(os.getpid(), "bash", ("bash", f"/proc/self/fd/{held.fileno()}"))
        found = judge("/", "/", [shell], 50)
    assert found is not None
    assert found.kind == "loop"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads procfs")
def test_the_short_way_to_the_processes_says_what_psutil_says() -> None:
    here = next(row for row in discover._scan() if row.pid == os.getpid())
    other = next(row for row in discover._scan_by_psutil() if row.pid == os.getpid())
    assert (here.ppid, here.cmdline) == (other.ppid, other.cmdline)
    assert other.name.startswith(here.name)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("python\0-m\0x\0", ("python", "-m", "x")),
        ("python\0-c\0a b\0", ("python", "-c", "a b")),
        ("sglang::scheduler_TP0\0\0\0", ("sglang::scheduler_TP0", "", "")),
        ("python -m sglang.launch_server --port 1\0", ("python", "-m", "sglang.launch_server", "--port", "1")),
        ("sshd: user [priv]", ("sshd:", "user", "[priv]")),
        ("", ()),
    ],
)
def test_words_of_a_command_line_as_the_kernel_tells_it(text: str, words: tuple[str, ...]) -> None:
    assert discover._words(text) == words
