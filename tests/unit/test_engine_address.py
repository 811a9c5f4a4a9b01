from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from answering_server import AnsweringServer

from spectui.cli import options
from spectui.engines.sglang.address import dialled, is_loopback, proxy_of, proxy_variable, read_key, shown
from spectui.engines.sglang.client import SglangClient
from spectui.engines.sglang.connection import Connection
from spectui.engines.sglang.errors import BadAddress, NotReachable

CASE = json.loads((Path(__file__).parent.parent / "data" / "sglang" / "FC-76.json").read_text())


@pytest.fixture
def proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in CASE["env"].items():
        monkeypatch.setenv(name, value)


def test_fc76_what_is_dialled() -> None:
    for row in CASE["urls"]:
        url = dialled(row["url"])
        host = f"[{row['dial']}]" if ":" in row["dial"] else row["dial"]
        assert url == f"http://{host}:30000"


@pytest.mark.usefixtures("proxies")
def test_fc76_no_proxy_by_default_whatever_the_environment_says() -> None:
    with AnsweringServer({"/health": (200, "")}) as server, SglangClient(f"http://0.0.0.0:{server.port}") as client:
        assert client.health() == 200


@pytest.mark.usefixtures("proxies")
def test_fc76_loopback_never_goes_through_a_proxy() -> None:
    with AnsweringServer({"/health": (200, "")}) as server, SglangClient(server.url, env_proxy=True) as client:
        assert client.health() == 200


@pytest.mark.parametrize("status", [403, 407, 502])
def test_fc76_a_proxy_that_answers_is_named(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with AnsweringServer({"http://10.9.8.7:30000/health": (status, "no", {"Via": "1.1 squid"})}) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.delenv("REQUEST_METHOD", raising=False)
        connection = Connection("http://10.9.8.7:30000", env_proxy=True)
        try:
            with pytest.raises(NotReachable) as caught:
                connection.call("GET", "/health")
        finally:
            connection.close()
        assert proxy.asked
    assert "proxy" in caught.value.what.lower()
    assert caught.value.what.lower().count("http_proxy") == 1


def test_a_malformed_proxy_variable_is_named_when_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "ALL_PROXY", "HTTPS_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", "ftp:// not a proxy")
    connection = Connection("http://10.9.8.7:30000", env_proxy=True)
    with pytest.raises((BadAddress, NotReachable)) as caught:
        connection.call("GET", "/health", timeout=1)
    connection.close()
    assert "http_proxy" in str(caught.value).lower()


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("30000", "http://127.0.0.1:30000"),
        ("localhost:30000", "http://localhost:30000"),
        (" http://h:1/v1/ ", "http://h:1"),
        ("https://h/prefix/", "https://h/prefix"),
        ("http://u:p@h:1", "http://u:p@h:1"),
        ("http://[::1]:5", "http://[::1]:5"),
    ],
)
def test_addresses_as_people_write_them(text: str, url: str) -> None:
    assert dialled(text) == url


@pytest.mark.parametrize(
    "text", ["", "http://", "ftp://h", "http://h:99999", "http://h:x", "http://[::1", "h o:1", "http://h:0"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(BadAddress) as caught:
        dialled(text)
    assert "http://HOST:PORT" in caught.value.next


def test_a_password_in_an_address_is_not_shown() -> None:
    assert shown("http://me:hunter2@h:1/x?key=s") == "http://h:1/x"
    assert SglangClient("http://me:hunter2@h:1").url == "http://h:1"


def test_loopback() -> None:
    assert all(is_loopback(f"http://{host}") for host in ("localhost", "127.0.0.1", "127.8.8.8", "[::1]"))
    assert not is_loopback("http://10.0.0.5")
    assert not is_loopback("http://gpu-node")


def test_which_variable_holds_the_proxy() -> None:
    assert proxy_variable("http://h", {"HTTP_PROXY": "x"}) == "HTTP_PROXY"
    assert proxy_variable("https://h", {"HTTP_PROXY": "x"}) is None
    assert proxy_variable("https://h", {"ALL_PROXY": "x"}) == "ALL_PROXY"


def test_keys_by_reference(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("from-file\n")
    assert read_key(f"file:{path}") == "from-file"
    assert read_key("env:K", {"K": "from-env"}) == "from-env"
    assert read_key(None) is None
    for wrong in ("env:K", f"file:{path}x", "sk-the-key-itself"):
        with pytest.raises(BadAddress) as caught:
            read_key(wrong, {})
        assert "sk-the-key-itself" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "choice", "expected"),
    [
        ("http://gpu-node:30000", None, None),
        ("http://gpu-node:30000", "http://proxy:3128", "http://proxy:3128"),
        ("http://gpu-node:30000", "proxy:3128", "http://proxy:3128"),
        ("http://gpu-node:30000", "env", "http://of-env:1"),
        ("https://gpu-node", "env", "http://of-all:2"),
        ("http://near:30000", "env", None),
        ("http://127.0.0.1:30000", "http://proxy:3128", None),
        ("0.0.0.0:30000", "env", None),
        ("localhost:30000", "env", None),
    ],
)
def test_which_proxy_an_address_goes_through(
    monkeypatch: pytest.MonkeyPatch, url: str, choice: str | None, expected: str | None
) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://of-env:1")
    monkeypatch.setenv("all_proxy", "http://of-all:2")
    monkeypatch.setenv("no_proxy", "near,.local")
    assert proxy_of(url, choice) == expected


@pytest.mark.parametrize("text", ["http://user:secret@proxy:3128", "ftp://proxy", "http://", "http://proxy:x"])
def test_a_proxy_with_a_password_or_without_a_host_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as raised:
        options.proxy(text)
    assert "secret" not in str(raised.value)
