"""What can go wrong between spectui and a server, each with what happened, where, and what to do next."""

from __future__ import annotations

import os


class EngineError(Exception):
    """A call to a server did not give what it should. ``str()`` is one line fit to be shown; it never holds a key."""

    def __init__(self, what: str, where: str, next_step: str, *, status: int | None = None) -> None:
        super().__init__(f"{where}: {what}. {next_step}" if next_step else f"{where}: {what}.")
        self.what = what
        self.where = where
        self.next = next_step
        self.status = status
        """HTTP status where there was an answer."""


class BadAddress(EngineError):
    """The text given as a server's address is not one."""


class NotReachable(EngineError):
    """Nothing listens there, the name is unknown, or the way to it is closed."""


class TimedOut(NotReachable):
    """Something accepted the connection and did not answer within the limit."""


class Unauthorized(EngineError):
    """401 or 403: a key is missing or wrong."""


class NotSglang(EngineError):
    """Something answers, and it is not an SGLang server."""


class StillStarting(EngineError):
    """503: the server is up and does not serve yet."""


class Refused(EngineError):
    """The server understood the request and said no (400 and its kin); ``what`` holds its words."""


class NotThere(Refused):
    """404 or 405: this server has no such address."""


class Broken(EngineError):
    """The server failed (5xx), hung up in the middle of an answer, or answered what cannot be read."""


def why_unconnected(error: BaseException) -> str:
    """Why a connection could not be made, in plain words."""
    import ssl

    cause: BaseException | None = error
    for _ in range(8):
        if cause is None:
            break
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not accepted ({cause.verify_message})"
        if isinstance(cause, ssl.SSLError):  # an OSError too, whose number is none of the system's
            return "no TLS there (https); perhaps it serves http"
        number = getattr(cause, "errno", None)
        if isinstance(number, int) and number > 0:
            return os.strerror(number).lower()
        cause = cause.__cause__ or cause.__context__
    text = str(error).lower()
    if "refused" in text:
        return "connection refused"
    if "name" in text or "getaddrinfo" in text or "nodename" in text:
        return "host name is unknown"
    if "ssl" in text or "certificate" in text:
        return f"TLS failed ({str(error)[:120]})"
    return "cannot connect"
