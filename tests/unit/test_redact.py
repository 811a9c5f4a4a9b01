from __future__ import annotations

from pathlib import Path

import pytest

from spectui.core.redact import HIDDEN, hide_argv, hide_env, redact
from spectui.store.secrets import SecretError, resolve


@pytest.mark.parametrize(
    "argv",
    [
        ["--api-key", "abc123"],
        ["--admin-api-key=abc123"],
        ["-e", "HF_TOKEN=abc123"],
        ["HUGGING_FACE_HUB_TOKEN=abc123"],
        ["sk-abc123"],
        ["http://me:abc123@proxy:80"],
        ["--key", "abc123"],
        ["env", "TOKEN=abc123", "python"],
        ["bash", "-c", "python -m sglang.launch_server --api-key abc123 --port 1"],
        ["ssh", "node", "API_KEY=abc123 python -m sglang.launch_server"],
        ["curl", "-H", "X-Api-Key: abc123", "http://h"],
        ["curl", "-H", "X-Api-Key:", "abc123"],
        ["x", "Authorization:", "Bearer", "abc123"],
        ["/usr/bin/sshpass", "-p", "abc123", "ssh", "node"],
        ["curl", "-s", "-u", "me:abc123", "http://h"],
        ["--endpoint", "https://h/v1?x=1&key=abc123"],
        ["pip", "install", "https://abc123@git.example/x"],
    ],
)
def test_keys_do_not_stay_in_a_command(argv: list[str]) -> None:
    assert "abc123" not in " ".join(hide_argv(argv))


KEY = "PLANTED9x7Qz"


@pytest.mark.parametrize(
    "text",
    [
        f"https://h/p?token={KEY}",
        f"https://h/p?a=1&sig={KEY}#top",
        f"https://h/p?X-Amz-Signature={KEY}",
        f"https://h/#access_token={KEY}",
        f"https://{KEY}@github.com/x",
        f"//user:{KEY}@h/x",
        f"authorization: token {KEY}",
        f'-H "Authorization: Bearer {KEY}"',
        f"Cookie: session={KEY}; path=/",
        f"MYSQL_PWD={KEY}",
        f"curl -s -u user:{KEY} http://h",
        f"sshpass -p {KEY} ssh host",
    ],
)
def test_keys_do_not_stay_in_text(text: str) -> None:
    assert KEY not in redact(text)
    assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "https://h/p?tokens=5&monkey=2",
        "https://h/p?key=$MY_KEY",
        "docker run -u 1000:1000 img",
        "ssh://me@node/place",
        "srun -p gpu --pty bash",
        "PWD=/srv",
    ],
)
def test_what_only_looks_like_one_stays(text: str) -> None:
    assert redact(text) == text


def test_what_is_no_key_stays() -> None:
    argv = ["python", "-m", "x", "--max-total-tokens", "4096", "--speculative-num-draft-tokens=8", "--host", "h"]
    assert list(hide_argv(argv)) == argv
    assert hide_argv(["--api-key", "env:KEY"]) == ("--api-key", "env:KEY")
    assert hide_argv(["x", "--enable-auth", "--port", "1"])[3] == "1"
    assert hide_argv(["--model-path", "hf_models/a"]) == ("--model-path", "hf_models/a")
    assert hide_argv(["bash", "-c", "x --num-draft-tokens 8"]) == ("bash", "-c", "x --num-draft-tokens 8")


def test_environment_keeps_names_and_references() -> None:
    env = {"HF_TOKEN": "abc", "OPENAI_API_KEY": "env:K", "CUDA_VISIBLE_DEVICES": "0", "X": "hf_abcdef"}
    assert hide_env(env) == {
        "HF_TOKEN": HIDDEN,
        "OPENAI_API_KEY": "env:K",
        "CUDA_VISIBLE_DEVICES": "0",
        "X": HIDDEN,
    }


def test_references_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret\n")
    assert resolve(f"file:{tmp_path / 'key'}") == "secret"
    assert resolve("env:K", {"K": "v"}) == "v"
    assert resolve("plain") == "plain"
    assert resolve("file:///data/runs") == "file:///data/runs"
    with pytest.raises(SecretError, match="NOPE is not set"):
        resolve("env:NOPE", {})
    with pytest.raises(SecretError, match="cannot be read"):
        resolve(f"file:{tmp_path / 'none'}")
