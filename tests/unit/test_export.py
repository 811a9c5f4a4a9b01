"""Launch commands for other places: they start the same server, and hold no key."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.core.launch_line import launch_arguments
from spectui.core.profile import Profile, ServerPart, SpeculativePart
from spectui.core.redact import HIDDEN, is_secret_name, redact
from spectui.store import export
from spectui.store.secrets import SecretError, reveal

DATA = Path(__file__).parents[1] / "data" / "profiles"
FLAGS = {"num_draft_tokens": "--speculative-num-draft-tokens"}
PROFILE = Profile(
    'my "odd" $profile',
    server=ServerPart(
        command="python3 -m sglang.launch_server {args}",
        cwd="/srv/my place",
        env={"HF_TOKEN": "env:HF_TOKEN", "GREETING": "it's $5 & more"},
        port=30001,
        gpus=(0, 1),
        model_path="/models/my model/8b",
        args={"json_model_override_args": {"a": "b c"}, "tp_size": 2, "odd": '$HOME `id`; %n "x" \\'},
        api_key="env:MY_KEY",
        admin_api_key="file:/etc/admin.key",
    ),
    speculative=SpeculativePart("NGRAM", {"num_draft_tokens": 8}),
)


def test_fc_67_a_pasted_command_starts_the_same_server():
    case = json.loads((DATA / "FC-67.json").read_text())
    words = ["--model-path", case["model_path"], "--json-model-override-args", case["json_model_override_args"]]
    line = export.shell(Profile("x"), [*words, "--api-key", case["api_key"], f"--admin-api-key={case['api_key']}"])
    split = shlex.split(line)
    for want in case["want_tokens"]:
        assert want in split
    assert case["api_key"] not in line
    assert "$SGLANG_API_KEY" in line
    assert "$SGLANG_ADMIN_API_KEY" in line
    assert split[split.index("--model-path") + 1] == case["model_path"]


def test_a_real_shell_sees_the_words(tmp_path: Path):
    words = launch_arguments(PROFILE, FLAGS)
    profile = Profile("x", server=ServerPart(command="printf '%s\\n' {args}", env=PROFILE.server.env, gpus=(0,)))
    line = export.shell(profile, words)
    environment = {"PATH": "/usr/bin:/bin", "MY_KEY": "s3 cret", "SGLANG_ADMIN_API_KEY": "adm", "HF_TOKEN": "t"}
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True, env=environment)
    want = [{"env:MY_KEY": "s3 cret", "file:/etc/admin.key": "adm"}.get(word, word) for word in words]
    assert done.stdout.split("\n")[:-1] == want


@pytest.mark.parametrize("kind", export.KINDS)
def test_no_export_holds_a_key(kind: str):
    planted = ["--api-key", "PLANTED-1", "--admin-api-key=PLANTED-2", "--odd", "hf_PLANTEDabcdefghijklmnopq"]
    profile = Profile(
        "x",
        server=ServerPart(
            env={"HF_TOKEN": "PLANTED-3", "PROXY": "http://me:PLANTED-4@proxy", "SECRET": "PLANTED-5"}, gpus=(3,)
        ),
    )
    text = export.export(profile, planted, kind)
    assert "PLANTED" not in text
    assert "HF_TOKEN" in text
    assert "SGLANG_API_KEY" in text


def test_docker():
    words = shlex.split(export.docker(PROFILE, launch_arguments(PROFILE, FLAGS)))
    assert words[words.index("--gpus") + 1] == '"device=0,1"'
    assert words[words.index("-p") + 1] == "127.0.0.1:30001:30001"
    assert "GREETING=it's $5 & more" in words
    assert "HF_TOKEN" in words, "taken from the caller's environment"
    assert "/models/my model/8b:/models/my model/8b:ro" in words
    assert words[words.index("--host") + 1] == "0.0.0.0"
    assert words[words.index("--speculative-num-draft-tokens") + 1] == "8"


def test_systemd():
    text = export.systemd(PROFILE, launch_arguments(PROFILE, FLAGS))
    assert "WorkingDirectory=/srv/my place\n" in text
    assert 'Environment="CUDA_VISIBLE_DEVICES=0,1"' in text
    assert "EnvironmentFile=/etc/spectui/my-odd-profile.env" in text
    start = next(line for line in text.split("\n") if line.startswith("ExecStart="))
    assert "--api-key ${MY_KEY}" in start
    assert '"/models/my model/8b"' in start
    assert '"$$HOME `id`; %%n \\"x\\" \\\\"' in start


def test_kubernetes():
    text = export.kubernetes(PROFILE, launch_arguments(PROFILE, FLAGS))
    commands = [json.loads(line[10:]) for line in text.split("\n") if line.startswith('        - "')]
    assert commands[:3] == ["python3", "-m", "sglang.launch_server"]
    assert commands[commands.index("--api-key") + 1] == "$(MY_KEY)"
    assert '{"a": "b c"}' in commands
    assert "nvidia.com/gpu: 2" in text
    assert "secretKeyRef" in text
    assert "HF_TOKEN" in text
    alone = Profile("x", server=ServerPart(args={"tp_size": 4}))
    assert "nvidia.com/gpu: 4" in export.kubernetes(alone, [])


def test_an_unknown_kind_is_said():
    with pytest.raises(ValueError, match="shell, docker, systemd, kubernetes"):
        export.export(PROFILE, [], "helm")


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\0$"), max_size=12).filter(lambda w: redact(w) == w)
    )
)
def test_any_words_survive_the_shell(words: list[str]):
    words = [word for word in words if not word.startswith("-")]
    split = shlex.split(export.shell(Profile("x"), words))
    assert split == ["python3", "-m", "sglang.launch_server", *words]


# -- redaction --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "--api-key PLANTED-KEY --port 3",
        "--admin-api-key=PLANTED-KEY",
        "--api-key 'PLANTED-KEY x'",
        "api_key='PLANTED-KEY', port=3",
        '{"api_key": "PLANTED-KEY", "port": 3}',
        '{"admin_api_key": "PLANTED\\"-KEY"}',
        "Authorization: Bearer PLANTED-KEY",
        "authorization: Basic PLANTEDKEY==",
        "HF_TOKEN=PLANTED-KEY python",
        "export AWS_SECRET_ACCESS_KEY=PLANTED-KEY",
        "http://user:PLANTED-KEY@proxy:3128/",
        "token hf_PLANTEDabcdefghijklmnopqrst here",
        "sk-PLANTEDabcdefghijklmnop",
        "password: PLANTED-KEY",
        "ServerArgs(api_key='PLANTED-KEY', admin_api_key=None)",
    ],
)
def test_planted_keys_do_not_leave(text: str):
    assert "PLANTED" not in redact(text)
    assert HIDDEN in redact(text)
    assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "Decode batch, #running-req: 1, #token: 200, token usage: 0.01, gen throughput (token/s): 123.45",
        "max_total_num_tokens=1000, chunked_prefill_size=8192, context_len=4096",
        "--tokenizer-path /t --max-total-tokens 5",
        "api_key=None, admin_api_key=None",
        '{"api_key": null, "num_draft_tokens": 8, "key": "num_steps"}',
        "num_draft_tokens: 8",
        "--api-key env:MY_KEY",
        "key: value",
    ],
)
def test_harmless_text_stays(text: str):
    assert redact(text) == text


def test_tables_and_lists():
    table = {
        "api_key": "PLANTED",
        "nested": {"HF_TOKEN": "PLANTED", "ok": 1, "list": ["--api-key", "PLANTED", "--port", "3"]},
        "admin_api_key": None,
        "reference": {"api_key": "env:K"},
        "words": ("--admin-api-key=PLANTED", "x"),
        "note": "Bearer PLANTED",
    }
    clean = redact(table)
    assert "PLANTED" not in json.dumps(clean)
    assert clean["nested"]["ok"] == 1
    assert clean["nested"]["list"] == ["--api-key", HIDDEN, "--port", "3"]
    assert clean["admin_api_key"] is None
    assert clean["reference"] == {"api_key": "env:K"}
    assert isinstance(clean["words"], tuple)
    assert redact("abc tops3cret def", ["tops3cret"]) == f"abc {HIDDEN} def"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("api_key", True),
        ("--admin-api-key", True),
        ("HF_TOKEN", True),
        ("apiKey", True),
        ("ssl_keyfile_password", True),
        ("num_draft_tokens", False),
        ("max_total_tokens", False),
        ("tokenizer_path", False),
        ("eos_token", False),
        ("keyboard", False),
        ("key", False),
        ("", False),
    ],
)
def test_names_of_secrets(name: str, secret: bool):
    assert is_secret_name(name) is secret


def test_secrets_are_read_at_the_last_moment(tmp_path: Path):
    (tmp_path / "k").write_text(" PLANTED\n")
    assert reveal(f"file:{tmp_path / 'k'}") == "PLANTED"
    assert reveal("env:K", {"K": "v"}) == "v"
    for bad in ("env:K", "env:", "PLANTED", f"file:{tmp_path / 'none'}", "file:"):
        with pytest.raises(SecretError) as caught:
            reveal(bad, {})
        assert "PLANTED" not in str(caught.value)
