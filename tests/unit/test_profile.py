"""What is wrong with a profile is said all at once, with file, line and key."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.core.launch_line import arrange, launch_arguments, launch_command
from spectui.core.profile import Profile, ServerPart, line_numbers, without_unset
from spectui.store import profiles
from spectui.store.profiles import ProfileError, validate

DATA = Path(__file__).parents[1] / "data" / "profiles"
FLAGS = {
    "draft_model_path": "--speculative-draft-model-path",
    "num_steps": "--speculative-num-steps",
    "num_draft_tokens": "--speculative-num-draft-tokens",
    "adaptive": "--speculative-adaptive",
    "cuda_graph_max_bs": "--cuda-graph-max-bs-decode",
}


def faults(text: str) -> list[str]:
    with pytest.raises(ProfileError) as caught:
        validate(text, "bad.toml")
    return list(caught.value.lines)


def test_two_faults_are_both_named_with_their_places():
    text = 'name = "x"\n[server]\nport = "not a number"\n[speculative]\nalgorithm = "NGRAM"\nnum_draft_tokens = -3\n'
    assert faults(text) == [
        'bad.toml:3: server.port: must be an integer from 1 to 65535, not "not a number"',
        "bad.toml:6: speculative.num_draft_tokens: must be an integer from 1 to 1024, not -3",
    ]


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("[server]\nport = 0", "server.port", "from 1 to 65535, not 0"),
        ("[server]\nport = true", "server.port", "not true"),
        ("[server]\nport = 30000.0", "server.port", "not 30000.0"),
        ("server = 3", "server", "must be a table, not 3"),
        ("[server]\nhost = 'http://x:1'", "server.host", "without scheme and port"),
        ("[server]\nhost = ''", "server.host", "must not be empty"),
        ("[server]\ncommand = []", "server.command", "must be text or a list of words"),
        ("[server]\ngpus = [0, -1]", "server.gpus", "GPU numbers or UUIDs"),
        ("[server]\ngpus = [0, 0]", "server.gpus", "names a GPU twice"),
        ("[server]\ngpus = 'a'", "server.gpus", "GPU numbers or UUIDs"),
        ("[server.env]\nA = [1]", "server.env.A", "must be text"),
        ("[server.env]\n'A B' = '1'", "server.env.A B", "no name of an environment variable"),
        (
            "[server.args]\nspeculative_num_steps = 3",
            "server.args.speculative_num_steps",
            "belongs under [speculative]",
        ),
        ("[server]\nargs = ['--speculative-num-steps', '3']", "server.args", "belongs under [speculative]"),
        ("[server]\nmodel_path = 3", "server.model_path", "must be text, not 3"),
        ("[speculative]\nalgorithm = 'EAGEL3'", "speculative.algorithm", "did you mean EAGLE3?"),
        ("[speculative]\nalgorithm = 'zzz'", "speculative.algorithm", "plugin = true"),
        ("[speculative]\nalgorithm = 3", "speculative.algorithm", "must be text"),
        (
            "[speculative]\nalgorithm = 'NGRAM'\n[speculative.ngram]\nmatch_type = 'X'",
            "speculative.ngram.match_type",
            "BFS",
        ),
        ("[speculative]\nalgorithm = 'none'\nnum_steps = 'many'", "speculative.num_steps", "must be an integer"),
        ("[workload]\nconcurrency = [1, 0]", "workload.concurrency", "at least 1"),
        ("[workload]\ntemperature = 'hot'", "workload.temperature", "an integer or a number"),
        ("[workload]\ntemperature = 9", "workload.temperature", "from 0 to 2"),
        ("[workload]\npasses = ['hot']", "workload.passes", "cold, warm, primed"),
        ("evidence = 3", "evidence", "list of tables"),
        ("schema = 99", "schema", "newer spectui"),
        ("schema = 'x'", "schema", "must be an integer"),
        ("name = 3", "name", "must be text"),
    ],
)
def test_each_fault_has_its_key_and_line(text: str, where: str, what: str):
    lines = faults(text)
    assert len(lines) == 1
    assert f": {where}: " in lines[0]
    assert what in lines[0]
    assert lines[0].startswith("bad.toml:")


@pytest.mark.parametrize(
    "text",
    [
        "[server]\napi_key = 'PLANTED-1'",
        "[server.args]\napi_key = 'PLANTED-1'",
        "[server.env]\nHF_TOKEN = 'PLANTED-1'",
        "[server]\nargs = ['--api-key', 'PLANTED-1']",
        "[server]\nargs = ['--admin-api-key=PLANTED-1']",
        "[server]\ncommand = 'python -m sglang.launch_server --api-key PLANTED-1 {args}'",
        "notes = 'use hf_PLANTED1abcdefghijklmnop'",
        "[server.env]\nPROXY = 'http://me:PLANTED-1@proxy:80'",
    ],
)
def test_a_key_in_the_file_is_refused_and_never_repeated(text: str):
    lines = faults(text)
    assert any("env:NAME or file:PATH" in line for line in lines)
    assert not any("PLANTED" in line for line in lines)


def test_references_and_harmless_names_are_taken():
    profile = validate(
        "[server]\napi_key = 'env:MY_KEY'\n[server.env]\nHF_TOKEN = 'file:~/.token'\nTOKENIZERS_PARALLELISM = 'false'\n"
        "[server.args]\nmax_total_tokens = 5\ntokenizer_path = '/t'\n"
    )
    assert profile.server.api_key == "env:MY_KEY"
    assert profile.server.arguments()["max_total_tokens"] == 5


def test_unknown_keys_are_noted_and_do_no_harm():
    profile = validate(
        "colour = 'red'\n[server]\nprot = 3\n[speculative]\nalgorithm = 'NGRAM'\nnum_draft_token = 3\n", "p"
    )
    assert {remark.where: remark.line for remark in profile.remarks} == {
        "colour": 1,
        "server.prot": 3,
        "speculative.num_draft_token": 6,
    }
    assert "did you mean port?" in " ".join(remark.text for remark in profile.remarks)
    assert "did you mean num_draft_tokens?" in " ".join(remark.text for remark in profile.remarks)


def test_names_of_algorithms_are_read_as_people_write_them():
    assert validate("[speculative]\nalgorithm = 'eagle-3'").speculative.algorithm == "EAGLE3"
    assert validate("").speculative.algorithm == "none"
    plugin = validate("[speculative]\nalgorithm = 'MYALG'\nplugin = true\nodd = 3").speculative
    assert (plugin.algorithm, plugin.plugin, plugin.knobs) == ("MYALG", True, {"odd": 3})


def test_the_older_schema_is_read():
    profile = profiles.load(DATA / "FC-09.toml")
    assert profile.speculative.knobs["dflash.block_size"] == 16
    assert "[spec]" in (DATA / "FC-09.toml").read_text()
    with pytest.raises(ProfileError, match=r"old\.toml:2: speculative\.num_steps"):
        validate("[spec]\nnum_steps = 0\nalgorithm = 'EAGLE3'", "old.toml")


def test_not_toml_says_where():
    assert faults("a = \nb = 3")[0].startswith("bad.toml:1: is not TOML")
    assert faults("a = 1\na = 2")[0].startswith("bad.toml")


def test_lines_of_keys():
    text = (
        'name = "x"\n\n# port = 1\n[server]\n  port = 3\nnotes = """\nport = 9\n"""\n[server.args]\n"a-b" = 1\n'
        "[[evidence]]\nx = 1\n[[evidence]]\nx = 2\n"
    )
    assert line_numbers(text) == {
        "name": 1,
        "server": 4,
        "server.port": 5,
        "server.notes": 6,
        "server.args": 9,
        "server.args.a-b": 10,
        "evidence[0]": 11,
        "evidence[0].x": 12,
        "evidence[1]": 13,
        "evidence[1].x": 14,
    }


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda raw: raw.decode("latin-1")))
def test_any_text_is_a_profile_or_a_clear_error(text: str):
    line_numbers(text)
    try:
        validate(text, "any.toml")
        said = None
    except ProfileError as error:
        said = error.lines
    assert said is None or (said and all(line.startswith("any.toml") for line in said))


_LEAVES = st.none() | st.booleans() | st.integers(-5, 70000) | st.floats() | st.text(max_size=8)
_TABLES = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["port", "args", "env", "algorithm", "ngram", "gpus", "name", "x"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(["server", "speculative", "workload", "evidence", "schema", "name"]), _TABLES))
def test_any_tables_are_checked_without_falling_over(tables):
    from spectui import algorithms
    from spectui.core.profile_check import check

    profile, found = check(tables, algorithms.find, algorithms.nearest, knobs=profiles.known_knobs())
    assert (profile is None) == any(fault.level == "fault" for fault in found)


def test_without_unset():
    table = {"a": None, "b": {"c": None}, "d": [None, 1], "e": {"f": 0, "g": False, "h": ""}}
    assert without_unset(table) == {"d": [1], "e": {"f": 0, "g": False, "h": ""}}


@pytest.mark.parametrize(
    ("host", "port", "url"),
    [
        ("127.0.0.1", 1234, "http://127.0.0.1:1234"),
        ("0.0.0.0", None, "http://127.0.0.1:30000"),
        ("::", 5, "http://[::1]:5"),
        ("fe80::1", 5, "http://[fe80::1]:5"),
        ("node7", 5, "http://node7:5"),
    ],
)
def test_where_it_is_reached(host: str, port: int | None, url: str):
    assert Profile("x", server=ServerPart(host=host, port=port)).url == url


# -- the command line -------------------------------------------------------------------------------------------------


def test_arguments_in_order_and_by_version():
    profile = validate(
        "[server]\nport = 30001\nmodel_path = '/models/my model/8b'\napi_key = 'env:K'\n"
        "[server.args]\nmem_fraction_static = 0.8\nenable_metrics = true\ndisable_radix_cache = false\n"
        "cuda_graph_max_bs = 32\nlora_paths = ['a', 'b']\njson_model_override_args = '{\"a\": \"b c\"}'\n"
        "[speculative]\nalgorithm = 'EAGLE3'\ndraft_model_path = '/d'\nnum_steps = 3\nadaptive = true\neagle_topk = 1\n"
    )
    found = arrange(profile, FLAGS)
    assert list(found.words) == [
        *("--model-path", "/models/my model/8b", "--host", "127.0.0.1", "--port", "30001", "--api-key", "env:K"),
        *("--mem-fraction-static", "0.8", "--enable-metrics", "--cuda-graph-max-bs-decode", "32"),
        *("--lora-paths", "a", "b", "--json-model-override-args", '{"a": "b c"}'),
        *("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "/d"),
        *("--speculative-num-steps", "3", "--speculative-adaptive"),
    ]
    assert [key for key, _ in found.left_out] == ["eagle_topk"]
    assert "--port 4000" in " ".join(launch_arguments(profile, FLAGS, port=4000))


def test_what_the_help_does_not_list_is_not_passed():
    profile = validate("[server]\nmodel_path = '/m'\n[server.args]\nenable_metrics = true\nodd = 1\n")
    found = arrange(profile, {}, listed={"--model-path", "--host", "--enable-metrics"})
    assert "--odd" not in found.words
    assert found.left_out == (("odd", "--odd is not listed by this server's --help"),)


def test_knobs_of_other_algorithms_and_further_arguments():
    profile = validate(
        "[server]\n[server.args]\nmax_running_requests = 64\n[speculative]\nalgorithm = 'NGRAM'\nnum_steps = 3\n"
    )
    found = arrange(profile, FLAGS, knobs={"num_draft_tokens"}, more={"max_running_requests": 48, "page_size": 1})
    assert found.words[2:] == ("--max-running-requests", "64", "--page-size", "1", "--speculative-algorithm", "NGRAM")
    assert found.left_out == (("num_steps", "is no knob of NGRAM"),)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (None, ["python3", "-m", "sglang.launch_server", "--a", "x y"]),
        ("sglang serve", ["sglang", "serve", "--a", "x y"]),
        ("srun -n1 python -m s {args} --tail", ["srun", "-n1", "python", "-m", "s", "--a", "x y", "--tail"]),
        ("ssh node 'cd /x && python -m s {args}'", ["ssh", "node", "cd /x && python -m s --a 'x y'"]),
        (("docker", "run", "-p{port}:{port}", "i", "{args}"), ["docker", "run", "-p7:7", "i", "--a", "x y"]),
        (("echo", "{{other}}", "${HOME}", "{args}"), ["echo", "{other}", "${HOME}", "--a", "x y"]),
    ],
)
def test_templates(command, words):
    profile = Profile("n", server=ServerPart(command=command, port=7))
    assert launch_command(profile, ["--a", "x y"]) == words


def test_a_template_that_cannot_be_split():
    with pytest.raises(ValueError, match=r"server\.command"):
        launch_command(Profile("n", server=ServerPart(command="python 'x")), [])


def test_arguments_as_words_are_read_as_a_table():
    profile = validate(
        "[server]\nargs = ['--page-size', '16', '--enable-metrics', '--x=a', '--cuda-graph-bs', '1', '2']\n"
    )
    assert profile.server.arguments() == {"page_size": 16, "enable_metrics": True, "x": "a", "cuda_graph_bs": [1, 2]}
