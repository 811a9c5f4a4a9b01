"""Profiles on disk: comments stay, the old file is safe, nobody's change is lost."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spectui.core.profile import Profile, ServerPart, SpeculativePart
from spectui.store import locations, profiles, toml_file
from spectui.store.model_files import facts, read_config
from spectui.store.profiles import ProfileConflict, ProfileError, load, save, save_table

DATA = Path(__file__).parents[1] / "data" / "profiles"
NGRAM = Profile(
    "mine",
    server=ServerPart(port=30001, model_path="/m", args={"page_size": 1}),
    speculative=SpeculativePart("NGRAM", {"num_draft_tokens": 8, "ngram.max_trie_depth": 18}),
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def only(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


# -- FC-88 ------------------------------------------------------------------------------------------------------------


def test_unset_values_are_left_out_and_text_survives(tmp_path: Path):
    table = json.loads((DATA / "FC-88.json").read_text())
    path = tmp_path / "p.toml"
    save_table(table, path)
    back = toml_file.tomllib.loads(path.read_text(encoding="utf-8"))
    assert "note" not in back
    assert "draft_model_path" not in back["spec"]
    assert "eagle_topk" not in back["spec"]
    want = {**table, "spec": {key: value for key, value in table["spec"].items() if value is not None}}
    del want["note"]
    assert back == want
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
):
    path = tmp_path / "p.toml"
    save(NGRAM, path)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    loaded = load(path)
    with monkeypatch.context() as patch:
        patch.setattr(toml_file.os, step, full)
        with pytest.raises(ProfileError, match=r"No space left on device; nothing was overwritten"):
            save(replace(loaded, notes="new"))
    assert path.read_bytes() == before
    assert only(tmp_path) == ["p.toml"]


def test_a_value_that_toml_cannot_say_leaves_the_old_file(tmp_path: Path):
    path = tmp_path / "p.toml"
    save_table({"a": 1}, path)
    before = path.read_bytes()
    with pytest.raises(ProfileError, match=r"cannot be saved: .*object"):
        save_table({"a": object()}, path, replace_existing=True)
    with pytest.raises(ProfileError, match="cannot be saved"):
        save_table({"a": "half a pair \ud83d"}, path, replace_existing=True)
    assert path.read_bytes() == before
    assert only(tmp_path) == ["p.toml"]


_WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(
    str.strip
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=_WORDS, notes=_WORDS, steps=st.integers(1, 64))
def test_what_is_saved_is_what_is_read(tmp_path: Path, name: str, notes: str, steps: int):
    from hypothesis import assume

    from spectui.core.redact import looks_secret

    assume(not looks_secret(name) and not looks_secret(notes))
    profile = Profile(name, notes, speculative=SpeculativePart("EAGLE3", {"num_steps": steps}))
    path = tmp_path / "any.toml"
    save(profile, path, replace_existing=True)
    back = load(path)
    assert (back.name, back.notes, back.speculative) == (name, notes, profile.speculative)


# -- comments and unknown keys ----------------------------------------------------------------------------------------


def test_comments_and_unknown_keys_stay(tmp_path: Path):
    path = tmp_path / "p.toml"
    path.write_text(
        '# mine\nname = "p"   # the name\ncolour = "red"\n\n[server]\nport = 30001 # typed\nowner = "me"\n'
        "[server.args]\npage_size = 1\nold = 2\n\n[speculative]\n# why eight\n"
        'algorithm = "NGRAM"\nnum_draft_tokens = 8\n'
        '[speculative.ngram]\nmax_trie_depth = 18\n\n[[evidence]]\n# first\nrun = "a"\n'
    )
    profile = load(path)
    changed = replace(
        profile,
        notes="better",
        server=replace(profile.server, args={"page_size": 16}, port=30002),
        speculative=SpeculativePart("NGRAM", {"num_draft_tokens": 12}),
        evidence=(*profile.evidence, {"run": "b", "accept_length": [1.5, 2.5]}),
    )
    saved = save(changed)
    text = path.read_text()
    for kept in ("# mine", "# the name", 'colour = "red"', "# typed", 'owner = "me"', "# why eight", "# first"):
        assert kept in text
    back = load(path)
    assert back.server.args == {"page_size": 16}
    assert back.server.port == 30002
    assert back.speculative.knobs == {"num_draft_tokens": 12}
    assert back.notes == "better"
    assert [entry["run"] for entry in back.evidence] == ["a", "b"]
    assert saved.digest == back.digest
    assert save(back).digest == back.digest, "saving what is there already changes nothing"
    assert path.read_text() == text


def test_an_older_schema_is_written_anew_and_kept_beside(tmp_path: Path):
    path = tmp_path / "old.toml"
    old = (DATA / "FC-09.toml").read_bytes()
    path.write_bytes(old)
    save(replace(load(path), notes="now"))
    assert (tmp_path / "old.toml.schema0").read_bytes() == old
    back = load(path)
    assert back.speculative.knobs["dflash.block_size"] == 16
    assert "[spec]" not in path.read_text()
    save(replace(back, notes="again"))
    assert (tmp_path / "old.toml.schema0").read_bytes() == old
    assert only(tmp_path) == ["old.toml", "old.toml.schema0"]


def test_a_link_is_written_through_and_the_mode_stays(tmp_path: Path):
    real = tmp_path / "dotfiles.toml"
    save(NGRAM, real)
    real.chmod(0o640)
    link = tmp_path / "link.toml"
    link.symlink_to(real)
    save(replace(load(link), notes="x"))
    assert link.is_symlink()
    assert load(real).notes == "x"
    assert real.stat().st_mode & 0o777 == 0o640


# -- two at once ------------------------------------------------------------------------------------------------------


def test_a_change_of_somebody_else_is_not_overwritten(tmp_path: Path):
    path = tmp_path / "p.toml"
    save(NGRAM, path)
    mine, theirs = load(path), load(path)
    save(replace(theirs, notes="theirs"))
    with pytest.raises(ProfileConflict, match="changed by someone else"):
        save(replace(mine, notes="mine"))
    assert load(path).notes == "theirs"


def test_a_file_that_was_not_read_is_not_overwritten(tmp_path: Path):
    path = tmp_path / "p.toml"
    save(replace(NGRAM, notes="first"), path)
    with pytest.raises(ProfileConflict, match="is there already"):
        save(NGRAM, path)
    assert load(path).notes == "first"
    save(NGRAM, path, replace_existing=True)
    assert load(path).notes is None


def test_a_writer_at_the_same_moment_is_waited_for_and_then_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(toml_file, "_LOCK_WAIT_S", 0.0)
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(ProfileConflict, match="another spectui is saving"):
            save(NGRAM, tmp_path / "p.toml")
    finally:
        os.close(handle)
    save(NGRAM, tmp_path / "p.toml")


def test_what_could_not_be_read_back_is_not_written(tmp_path: Path):
    bad = replace(NGRAM, server=replace(NGRAM.server, port=0))
    with pytest.raises(ProfileError, match=r"server\.port"):
        save(bad, tmp_path / "p.toml")
    leaky = replace(NGRAM, server=replace(NGRAM.server, args={"api_key": "PLANTED-9"}))
    with pytest.raises(ProfileError) as caught:
        save(leaky, tmp_path / "p.toml")
    assert "PLANTED" not in str(caught.value)
    assert only(tmp_path) in ([], ["home"])


# -- finding ----------------------------------------------------------------------------------------------------------


def test_the_users_profile_hides_a_starter(home: Path):
    starter = load("ngram")
    assert starter.path is not None
    assert Path(starter.path).parent == profiles.starters_dir()
    saved = save(replace(starter, notes="my own"))
    assert saved.path == str(locations.profiles_dir() / "ngram.toml"), "a starter is never written to"
    assert load("ngram").notes == "my own"
    names = [(entry.name, entry.starter) for entry in profiles.list_all()]
    assert ("ngram", False) in names
    assert ("ngram", True) not in names
    assert profiles.find(str(saved.path)) == Path(str(saved.path))


def test_all_starters_are_good_and_plan_without_refusal():
    from spectui import algorithms

    starters = [entry for entry in profiles.list_all() if entry.starter]
    assert {"none", "ngram", "eagle3"} <= {entry.name for entry in starters}
    for entry in starters:
        assert entry.profile is not None, entry.faults
        assert entry.profile.remarks == ()
        for version in ("0.5.5", "0.5.12", "0.5.15", "0.5.23"):
            assert algorithms.plan_of(entry.profile, version).refusals == ()
        for evidence in entry.profile.evidence:
            assert evidence["kind"] == "public"
            assert evidence["source"]
    args = {entry.name: entry.profile.server.args for entry in starters if entry.profile}
    assert args["none"] == args["ngram"] == args["eagle3"], "the three are there to be compared"


def test_a_profile_is_found_by_the_name_in_it(home: Path):
    save(replace(NGRAM, name='ngram "fast" \\ first'))
    assert only(locations.profiles_dir()) == ["ngram-fast-first.toml"]
    assert load('ngram "fast" \\ first').server.port == 30001


@pytest.mark.parametrize("name", ["no-such", "../../etc/passwd", "a\0b", "", "."])
def test_a_name_that_leads_nowhere(name: str):
    with pytest.raises(ProfileError):
        load(name)


def test_a_near_name_is_suggested():
    with pytest.raises(ProfileError, match="did you mean ngram"):
        load("ngran")


def test_files_that_are_no_profile(tmp_path: Path, home: Path):
    (tmp_path / "bytes.toml").write_bytes(b"name = 'x'\nnotes = '\xff'\n")
    (tmp_path / "folder.toml").mkdir()
    os.mkfifo(tmp_path / "pipe.toml")
    for name, what in (
        ("bytes.toml", r"bytes\.toml:2: is not UTF-8"),
        ("folder.toml", "is a folder"),
        ("pipe.toml", "is a pipe or a device"),
        ("gone.toml", "no such file"),
    ):
        with pytest.raises(ProfileError, match=what):
            load(tmp_path / name)
    with pytest.raises(ProfileError, match="has no name"):
        load("")
    (locations.profiles_dir() / "broken.toml").write_text("x = ")
    broken = next(entry for entry in profiles.list_all() if entry.name == "broken")
    assert broken.profile is None
    assert broken.faults


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def denied(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "p.toml").write_text("")
    monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(ProfileError, match="cannot be read: Permission denied"):
        load(tmp_path / "p.toml")


# -- of a running server ----------------------------------------------------------------------------------------------


def test_a_profile_of_a_running_server(tmp_path: Path):
    info = {
        "model_path": "/models/smol",
        "host": "127.0.0.1",
        "port": 30000,
        "api_key": "PLANTED-1",
        "admin_api_key": None,
        "max_running_requests": 48,
        "mem_fraction_static": 0.4,
        "page_size": 1,
        "attention_backend": "triton",
        "kv_cache_dtype": "auto",
        "enable_mixed_chunk": False,
        "trust_remote_code": True,
        "speculative_algorithm": "NGRAM",
    }
    settings = {"num_draft_tokens": 8, "ngram.max_trie_depth": 18, "num_steps": 0, "draft_model_path": None}
    profile = profiles.from_server(info, "found", settings=settings)
    saved = save(profile)
    text = Path(str(saved.path)).read_text()
    assert "PLANTED" not in text
    back = load("found")
    assert back.server.api_key == "env:SGLANG_API_KEY"
    assert back.server.admin_api_key is None
    assert back.server.args == {
        "max_running_requests": 48,
        "mem_fraction_static": 0.4,
        "page_size": 1,
        "attention_backend": "triton",
        "trust_remote_code": True,
    }
    assert back.speculative == SpeculativePart("NGRAM", {"num_draft_tokens": 8, "ngram.max_trie_depth": 18})


# -- config files of models -------------------------------------------------------------------------------------------


def test_configs_of_models(tmp_path: Path):
    for name, vocabulary in (("a", {"x": 0, "y": 1}), ("b", {"y": 1, "x": 0}), ("c", {"x": 1, "y": 0})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text('{"vocab_size": 2, "architectures": ["LlamaForCausalLM"]}')
        (tmp_path / name / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}}))
    a, b, c = (read_config(str(tmp_path / name)) for name in "abc")
    assert a is not None
    assert b is not None
    assert c is not None
    assert a["tokenizer"] == b["tokenizer"] != c["tokenizer"]
    assert facts(a, {"block_size": 8}) == {"architecture": "LlamaForCausalLM", "draft_block_size": 8}
    assert read_config("meta-llama/Llama-3.1-8B") is None
    assert read_config(None) is None
    (tmp_path / "a" / "config.json").write_text("[1")
    assert read_config(str(tmp_path / "a")) is None
    assert facts(None) == {}
