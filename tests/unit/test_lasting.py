from __future__ import annotations

from pathlib import Path

import pytest

from spectui.hosts.lasting import lasting

SESSION = "0::/user.slice/user-7.slice/session-3.scope\n"
USER_SERVICE = "0::/user.slice/user-7.slice/user@7.service/tmux-spawn-1.scope\n"


def node(root: Path, cgroup: str, *, conf: str = "", systemd: bool = True, linger: bool = False) -> Path:
    files = {"proc/self/cgroup": cgroup, "etc/systemd/logind.conf": conf}
    if linger:
        files["var/lib/systemd/linger/ann"] = ""
    if systemd:
        (root / "run/systemd/system").mkdir(parents=True)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def ask(root: Path, answer: str | None = None, **env: str) -> tuple[bool | None, str]:
    got = lasting(root=root, environ=env, user="ann", ask_logind=lambda: answer)
    return got.survives, got.sentence


def test_logind_that_kills_is_said_with_the_way_out(tmp_path: Path) -> None:
    survives, text = ask(node(tmp_path, SESSION, conf="[Login]\nKillUserProcesses=yes\n"))
    assert survives is False
    assert "KillUserProcesses=yes" in text
    assert "loginctl enable-linger, then start spectui by: systemd-run --user --scope spectui" in text


def test_with_lingering_only_the_scope_is_missing(tmp_path: Path) -> None:
    survives, text = ask(node(tmp_path, SESSION, linger=True), "b true")
    assert survives is False
    assert "enable-linger" not in text
    assert "systemd-run" in text


@pytest.mark.parametrize(
    "conf",
    ["", "#KillUserProcesses=yes\n", "KillUserProcesses=no\n", "KillUserProcesses=yes\nKillExcludeUsers=root ann\n",
     "KillUserProcesses=yes\nKillOnlyUsers=bob\n"],
)  # fmt: skip
def test_logind_that_does_not_kill_this_user(tmp_path: Path, conf: str) -> None:
    assert ask(node(tmp_path, SESSION, conf=conf))[0] is True


def test_later_files_win_and_the_bus_wins_over_files(tmp_path: Path) -> None:
    root = node(tmp_path, SESSION, conf="KillUserProcesses=no\n")
    (root / "etc/systemd/logind.conf.d").mkdir()
    (root / "etc/systemd/logind.conf.d/10.conf").write_text("[Login]\nKillUserProcesses=yes\n")
    assert ask(root)[0] is False
    assert ask(root, "b false")[0] is True


def test_the_user_manager_ends_with_the_last_login_unless_lingering(tmp_path: Path) -> None:
    survives, text = ask(node(tmp_path / "a", USER_SERVICE))
    assert survives is False
    assert "loginctl enable-linger" in text
    assert ask(node(tmp_path / "b", USER_SERVICE, linger=True))[0] is True


def test_slurm_ends_its_steps(tmp_path: Path) -> None:
    root = node(tmp_path, "0::/system.slice/slurmstepd.scope/job_77/step_0/user/task_0\n")
    survives, text = ask(root, SLURM_JOB_ID="77", SLURM_JOB_END_TIME="1900000000")
    assert survives is False
    assert "step 77.0" in text
    assert "1900000000" in text


def test_ssh_into_a_slurm_job_and_a_variable_that_was_only_carried_along(tmp_path: Path) -> None:
    extern = node(tmp_path / "a", "12:freezer:/slurm/uid_7/job_78/step_extern\n")
    assert "over ssh" in ask(extern)[1]
    assert ask(node(tmp_path / "b", SESSION), SLURM_JOB_ID="79")[0] is True


def test_without_systemd_nothing_ends_it(tmp_path: Path) -> None:
    assert ask(node(tmp_path, "0::/\n", systemd=False))[0] is True


def test_this_machine_answers() -> None:
    assert lasting().sentence
