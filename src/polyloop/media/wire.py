"""The HTTP door of media providers: one request, one answer, and what each failure proves about a submission.

The bare transport is used: no cookies, redirects, environment proxies or hidden retries. What fails before a byte left has not begun;
a refusal that the provider documents as one has not begun either; anything else proves nothing (S0.39, S1.81). Addresses in answers are
a stranger's: control links must be of the provider's own origin, files may come over https from elsewhere.
"""

from __future__ import annotations

import functools
import json
import math
import ssl
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from ..contract.problem import Kind, is_object, problem

#: Answers by which the providers here say that they have not begun.
REFUSED: Final = frozenset({400, 401, 402, 403, 404, 405, 413, 415, 422, 429})
_KIND: Final[dict[int, Kind]] = {401: "authentication_required", 403: "permission_denied", 402: "budget_exceeded", 429: "rate_limited"}
ANSWER_BYTES: Final = 64 << 20
TIMEOUT_S: Final = 120.0
_NOT_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError)
_OK: Final = range(200, 300)


@functools.cache
def _trusted() -> ssl.SSLContext:
    """The certificates that are trusted: read once per process, which takes tens of milliseconds."""
    return httpx2.create_ssl_context(trust_env=False)


class Wire:
    """Requests to one provider. `base` without a slash at its end."""

    def __init__(self, base: str, headers: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> None:
        parts = urlsplit(base)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or parts.fragment:
            raise problem("validation", f"no address of a provider: {base[:120]!r}", stage="arguments")
        self.base, self._headers, self._timeout_s = base.rstrip("/"), dict(headers), timeout_s
        self._origin = (parts.scheme, parts.netloc)
        # Each request has a connection of its own; what is shared is the set of trusted certificates.
        self._transport = httpx2.HTTPTransport(retries=0, verify=_trusted(), trust_env=False, limits=httpx2.Limits(max_keepalive_connections=0))

    def ask(self, method: str, path: str, body: object = None, *, form: tuple[Mapping[str, str], Any] | None = None) -> dict[str, Any]:
        """The JSON object of a good answer. `path` under the base, or a link an earlier answer gave. `form` = fields and files."""
        made: dict[str, Any] = {"data": form[0], "files": form[1]} if form else {} if body is None else {"json": body}
        told = self._answer(method, path, made)
        if told is None:
            raise problem("invalid_response", "the answer is no JSON object", stage="reply", execution_started=None)
        return told

    def tell(self, method: str, path: str, body: object = None) -> None:
        """Say something to which any good answer is enough, an empty one too."""
        self._answer(method, path, {} if body is None else {"json": body})

    def _answer(self, method: str, path: str, made: Mapping[str, Any]) -> dict[str, Any] | None:
        url = path if "://" in path else self.base + path
        if self._origin != urlsplit(url)[:2]:
            raise problem("invalid_response", "the provider names another host to be asked", stage="reply", execution_started=None)
        status, data = self._send(httpx2.Request(method, url, headers=self._headers, **made), ANSWER_BYTES)
        told = _parsed(data)
        if status not in _OK:
            raise _refusal(status, told)
        return told

    def file(self, url: str, limit: int) -> bytes:
        """Raises local_io (cannot be had) and validation (over `limit`)."""
        where = url if "://" in url else self.base + url
        own = self._origin == urlsplit(where)[:2]
        if not own and urlsplit(where).scheme != "https":
            raise problem("local_io", "the result is kept where it is not fetched from", stage="fetch")
        status, data = self._send(httpx2.Request("GET", where, headers=self._headers if own else {}), limit)
        if status not in _OK:
            raise problem("local_io", f"the result cannot be fetched: {status}", stage="fetch", details={"status": status})
        return data

    def _send(self, request: httpx2.Request, limit: int) -> tuple[int, bytes]:
        request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), self._timeout_s)
        try:
            response = self._transport.handle_request(request)
            try:
                return response.status_code, _read(response, limit)
            finally:
                response.close()
        except _NOT_SENT as error:
            raise problem("capability_unavailable", f"the provider cannot be reached: {type(error).__name__}", stage="connect") from error
        except httpx2.HTTPError as error:
            why = f"the reply was lost: {type(error).__name__}"
            raise problem("invalid_response", why, stage="reply", execution_started=None) from error


def _read(response: httpx2.Response, limit: int) -> bytes:
    data = bytearray()
    for piece in response.iter_raw():
        data += piece
        if len(data) > limit:
            raise problem("validation", f"the answer has more than {limit} bytes", stage="reply", execution_started=None)
    return bytes(data)


def _parsed(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if is_object(value) else None


def _refusal(status: int, told: dict[str, Any] | None) -> Exception:
    said = told or {}
    error = said.get("error", said.get("detail", ""))
    text = str(error.get("message", error) if is_object(error) else error)[:300]
    started = False if status in REFUSED else None
    kind: Kind = _KIND.get(status, "task_failed" if started is False else "invalid_response")
    return problem(kind, f"the provider answered {status}: {text}", stage="reply", execution_started=started, details={"status": status})


def text_of(told: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """A text of an answer. Raises invalid_response (nothing proved) where none stands and there is no default."""
    value = told.get(name, default)
    if isinstance(value, str) and (value or default is not None):
        return value
    raise problem("invalid_response", f"the answer has no {name}", stage="reply", execution_started=None)


def ratio(width: int, height: int) -> str:
    """`16:9`"""
    part = math.gcd(width, height) or 1
    return f"{width // part}:{height // part}"
