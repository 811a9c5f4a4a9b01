"""One HTTP call to a server, with a limit on the whole of it, and every way to fail under its name."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from spectui.core.redact import redact
from spectui.engines.sglang.address import ENV, dialled, is_loopback, proxy_of, proxy_variable, shown
from spectui.engines.sglang.errors import (
    BadAddress,
    Broken,
    EngineError,
    NotReachable,
    NotSglang,
    NotThere,
    Refused,
    StillStarting,
    TimedOut,
    Unauthorized,
    why_unconnected,
)
from spectui.engines.sglang.routes import auth_level

if TYPE_CHECKING:
    import ssl

    import httpx

    from spectui.engines.sglang.deadline import Deadline

MAX_BODY = 64 * 1024 * 1024
_PROXY_HEADERS = ("via", "proxy-agent", "proxy-connection", "proxy-authenticate", "x-squid-error", "x-cache")


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    content_type: str = ""

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    @property
    def json(self) -> Any:
        """The body as JSON; None where it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


def words_of(answer: Answer, hide: tuple[str, ...] = ()) -> str:
    """What the server says in an error body, in one line of at most 300 characters, keys hidden."""
    body = answer.json
    said: object = None
    if isinstance(body, dict):
        said = body.get("error", body.get("detail", body.get("message")))
        if isinstance(said, dict):
            said = said.get("message", said)
        if isinstance(said, list):
            said = "; ".join(str(entry.get("msg", entry)) if isinstance(entry, dict) else str(entry) for entry in said)
    elif isinstance(body, str):
        said = body
    elif body is None and "html" not in answer.content_type:
        said = answer.text
    text = " ".join("".join(c if c.isprintable() else " " for c in str(said or "")[:2000]).split())[:300]
    return redact(text, hide)


@cache
def certificates() -> ssl.SSLContext:
    """Whose certificates are believed: those of ``SSL_CERT_FILE`` or ``SSL_CERT_DIR``, else the bundled authorities.
    Read once for all servers: it takes longer than a call."""
    import httpx

    try:
        return httpx.create_ssl_context(trust_env=True)
    except OSError:  # no such file, or none of certificates: a server without TLS needs none
        return httpx.create_ssl_context(trust_env=False)


class Connection:
    """Calls to one server. Safe to use from several threads; :meth:`close` ends its sockets."""

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        admin_key: str | None = None,
        timeout: float = 5.0,
        env_proxy: bool = False,
        proxy: str | None = None,
    ) -> None:
        self._base = dialled(url)
        self.where = shown(self._base)
        self.timeout = timeout
        self._key = _checked(key)
        self._admin_key = _checked(admin_key)
        env_proxy = env_proxy or proxy == ENV
        self._proxy = None if env_proxy else proxy_of(self._base, proxy)
        self._through_proxy = bool(self._proxy) or (env_proxy and not is_loopback(self._base))
        self._client: httpx.Client | None = None
        self._deadline: Deadline | None = None

    @property
    def has_admin_key(self) -> bool:
        return self._admin_key is not None

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(secret for secret in (self._key, self._admin_key) if secret)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _open(self) -> httpx.Client:
        if self._client is None:
            import httpx

            try:
                env = self._through_proxy and not self._proxy
                client = httpx.Client(
                    base_url=self._base,
                    timeout=self.timeout,
                    trust_env=env,
                    verify=certificates(),
                    proxy=self._proxy,
                )
            except (ValueError, httpx.InvalidURL) as error:
                if self._proxy:
                    raise BadAddress(
                        "--proxy is no proxy address", self.where, "Write it as http://HOST:PORT"
                    ) from None
                name = (self._through_proxy and proxy_variable(self._base)) or None
                if name is None:
                    raise BadAddress(f"not an address ({error})", self.where, "Write it as http://HOST:PORT") from None
                raise BadAddress(
                    f"environment variable {name} is no proxy address", self.where, f"Correct or unset {name}"
                ) from None
            from spectui.engines.sglang.deadline import Deadline

            self._deadline = Deadline()
            self._deadline.hold(client)
            self._client = client
        return self._client

    def _keys(self, path: str) -> list[str | None]:
        """Keys to try in order. An admin route takes the normal key where the server has no administrator key."""
        level = auth_level(path)
        if level == "admin" and self._admin_key:
            return [self._admin_key, self._key] if self._key else [self._admin_key]
        return [self._key]

    def call(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: dict[str, str] | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """One answer, whatever its status; raises only when there is none, or it came from a proxy on the way."""
        answer = Answer(0, b"")
        for key in self._keys(path):
            answer = self._send(method, path, body, params, self.timeout if timeout is None else timeout, key)
            if answer.status not in (401, 403):
                break
        return answer

    def _send(
        self, method: str, path: str, body: object, params: dict[str, str] | None, limit_s: float, key: str | None
    ) -> Answer:
        import httpx

        headers = {"Authorization": f"Bearer {key}"} if key else {}
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        client = self._open()  # setting it up takes time that is not the server's
        assert self._deadline is not None
        deadline = time.monotonic() + limit_s
        pieces: list[bytes] = []
        size = 0
        try:
            with (
                self._deadline.within(deadline),
                client.stream(
                    method,
                    path,
                    content=content,
                    params=params,
                    headers=headers,
                    timeout=limit_s,
                    follow_redirects=method == "GET",
                ) as response,
            ):
                self._check_proxy(response)
                for piece in response.iter_bytes():
                    pieces.append(piece)
                    size += len(piece)
                    if time.monotonic() > deadline:
                        raise TimedOut(f"answer not finished within {limit_s:g} s", self.where, _TIMEOUT_NEXT)
                    if size > MAX_BODY:
                        raise Broken(f"answer to {path} is larger than 64 MiB", self.where, "Is this an SGLang server?")
                return Answer(response.status_code, b"".join(pieces), response.headers.get("content-type", ""))
        except httpx.HTTPError as error:
            raise self._failure(error, path, limit_s) from None
        except httpx.InvalidURL:
            raise BadAddress("not an address", self.where, "Write it as http://HOST:PORT") from None

    def _failure(self, error: httpx.HTTPError, path: str, limit_s: float) -> EngineError:
        import httpx

        if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
            return NotReachable(f"no connection within {limit_s:g} s", self.where, "Check host, port and firewall")
        if isinstance(error, httpx.TimeoutException):
            return TimedOut(f"no answer to {path} within {limit_s:g} s", self.where, _TIMEOUT_NEXT)
        if isinstance(error, httpx.ProxyError):
            return self._proxy_error(str(error))
        if isinstance(error, httpx.ConnectError):
            why = why_unconnected(error)
            further = "Is the server running there? Check host and port"
            if "certificate" in why:
                further = "Name the file of its authority in SSL_CERT_FILE"
            return NotReachable(why, self.where, further)
        if isinstance(error, httpx.UnsupportedProtocol | httpx.TooManyRedirects | httpx.DecodingError):
            return NotSglang(f"what answers {path} is not an SGLang server", self.where, "Check host and port")
        if (
            isinstance(error, httpx.RemoteProtocolError)
            and "disconnect" not in str(error)
            and "closed" not in str(error)
        ):
            return NotSglang("what answers there does not speak HTTP", self.where, "Check host and port")
        tls = "" if self._base.startswith("https") else ", or it serves https: write the address so"
        return Broken(
            f"the connection broke while {path} was answered",
            self.where,
            f"The server may have died: see its log{tls}",
        )

    def _check_proxy(self, response: httpx.Response) -> None:
        if not self._through_proxy:
            return
        status = response.status_code
        if status == 407 or (status in (403, 502) and any(name in response.headers for name in _PROXY_HEADERS)):
            raise self._proxy_error(f"HTTP {status}", status)

    def _proxy_error(self, said: str, status: int | None = None) -> NotReachable:
        name = "--proxy" if self._proxy else proxy_variable(self._base) or "the proxy variable"
        return NotReachable(
            f"the proxy named by {name} answered in place of the server ({said})",
            self.where,
            "Give another one, or call without a proxy"
            if self._proxy
            else f"Unset {name}, add the host to NO_PROXY, or call without a proxy",
            status=status,
        )

    def failure_of(self, answer: Answer, path: str) -> EngineError:
        """The named error for an answer whose status is not a success."""
        status = answer.status
        said = words_of(answer, self.secrets)
        told = f": {said}" if said else ""
        if status in (401, 403):
            admin = auth_level(path) == "admin"
            which = "the administrator key" if admin and (self._key or self._admin_key) else "a key"
            have = "the key given is not accepted" if self._key or self._admin_key else "no key was given"
            return Unauthorized(
                f"{path} needs {which}; {have} (HTTP {status})",
                self.where,
                "Give it with --admin-key env:NAME or file:PATH"
                if admin
                else "Give it with --key env:NAME or file:PATH",
                status=status,
            )
        if status in (404, 405):
            return NotThere(f"this server has no {path} (HTTP {status})", self.where, "", status=status)
        if status == 503:
            return StillStarting(
                f"the server does not serve yet (HTTP 503){told}", self.where, "Wait for it", status=status
            )
        if status >= 500:
            return Broken(f"{path} failed (HTTP {status}){told}", self.where, "See the server's log", status=status)
        return Refused(f"{path} was refused (HTTP {status}){told}", self.where, "", status=status)


_TIMEOUT_NEXT = "It may be busy or hung: see its log, or give it more time"


def _checked(key: str | None) -> str | None:
    if not key:
        return None
    clean = key.strip()
    if not clean.isascii() or not clean.isprintable():
        raise BadAddress("the key holds characters that no header can carry", "key", "Check the variable or file")
    return clean or None
