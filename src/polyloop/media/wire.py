"""The HTTP door of media providers: one request, one answer, and what each failure proves about a submission.

The bare transport is used: no cookies, redirects, environment proxies or hidden retries. What fails before a byte left has not begun;
a refusal that the provider documents as one has not begun either; anything else proves nothing (S0.39, S1.81). Addresses in answers are
a stranger's: control links must be of the provider's own origin, files may come over https from elsewhere.
"""

from __future__ import annotations

import functools
import ipaddress
import json
import math
import ssl
from collections.abc import Mapping
from typing import Any, Final, Never, cast
from urllib.parse import SplitResult, urlsplit

import httpx2

from ..clock import SystemClock
from ..contract.problem import Kind, is_object, problem

#: Answers by which the providers here say that they have not begun.
REFUSED: Final = frozenset({400, 401, 402, 403, 404, 405, 413, 415, 422, 429})
_KIND: Final[dict[int, Kind]] = {401: "authentication_required", 403: "permission_denied", 402: "budget_exceeded", 429: "rate_limited"}
ANSWER_BYTES: Final = 64 << 20
#: Longest wait for the next byte, and for all of a body: less than a worker's lease (`limits.LEASE_MS`).
TIMEOUT_S, TOTAL_S = 120.0, 150.0
#: Objects and lists within one another in an answer.
_DEPTH: Final = 64
#: Characters of an id or address that is kept.
_TEXT_CHARS: Final = 4_000
CLOCK: Final = SystemClock()
_NOT_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError)
_OK: Final = range(200, 300)


@functools.cache
def _trusted() -> ssl.SSLContext:
    """The certificates that are trusted: read once per process, which takes tens of milliseconds."""
    return httpx2.create_ssl_context(trust_env=False)


class Wire:
    """Requests to one provider. `base` without a slash at its end."""

    def __init__(self, base: str, headers: Mapping[str, str], timeout_s: float = TIMEOUT_S, total_s: float = TOTAL_S) -> None:
        parts = _split(base)
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or parts.fragment:
            raise problem("validation", f"no address of a provider: {base[:120]!r}", stage="arguments")
        if not all(value.isascii() and value.isprintable() for value in headers.values()):
            raise problem("validation", "the key of a provider holds what no header can carry", stage="arguments")
        self.base, self._headers, self._timeout_s = base.rstrip("/"), dict(headers), timeout_s
        self._total_s = total_s
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
        where = _split(url)
        if where is None or self._origin != (where.scheme, where.netloc):
            raise problem("invalid_response", "the provider names another host to be asked", stage="reply", execution_started=None)
        status, data = self._send(httpx2.Request(method, url, headers=self._headers, **made), ANSWER_BYTES)
        told = _parsed(data)
        if status not in _OK:
            raise _refusal(status, told)
        return told

    def file(self, url: str, limit: int) -> bytes:
        """Raises local_io (cannot be had now) and validation (over `limit`, or at an address that is not asked: it stays so)."""
        whole = url if "://" in url else self.base + url
        where = _split(whole)
        own = where is not None and self._origin == (where.scheme, where.netloc)
        if where is None or not (own or (where.scheme == "https" and _public(where.hostname or ""))):
            raise problem("validation", "the result is kept where it is not fetched from", stage="fetch")
        status, data = self._send(httpx2.Request("GET", whole, headers=self._headers if own else {}), limit)
        if status not in _OK:
            raise problem("local_io", f"the result cannot be fetched: {status}", stage="fetch", details={"status": status})
        return data

    def _send(self, request: httpx2.Request, limit: int) -> tuple[int, bytes]:
        request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), self._timeout_s)
        try:
            response = self._transport.handle_request(request)
            try:
                return response.status_code, _read(response, limit, self._total_s)
            finally:
                response.close()
        except _NOT_SENT as error:
            raise problem("capability_unavailable", f"the provider cannot be reached: {type(error).__name__}", stage="connect") from error
        except httpx2.HTTPError as error:
            why = f"the reply was lost: {type(error).__name__}"
            raise problem("invalid_response", why, stage="reply", execution_started=None) from error


def _split(url: str) -> SplitResult | None:
    """The parts of an address; None = it is none that could be asked."""
    try:
        parts, port = urlsplit(url), urlsplit(url).port  # a port that is none raises
        httpx2.URL(url)
    except (ValueError, httpx2.InvalidURL):
        return None
    return None if port == 0 else parts


def _public(host: str) -> bool:
    """Not this machine's or a network's own, as far as the name tells: what a stranger names is never asked for there."""
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        _, dot, last = host.rstrip(".").rpartition(".")  # 127.1 and 0x7f.1 are addresses too
        return bool(dot) and last[:1].isalpha() and last not in ("localhost", "local", "internal")


def _read(response: httpx2.Response, limit: int, total_s: float) -> bytes:
    """The whole body. An answer that goes on for ever, however slowly, is none."""
    data, until = bytearray(), CLOCK.monotonic() + total_s
    for piece in response.iter_raw():
        data += piece
        if len(data) > limit:
            raise problem("validation", f"the answer has more than {limit} bytes", stage="reply", execution_started=None)
        if CLOCK.monotonic() > until:
            raise problem("invalid_response", f"the answer has not ended after {total_s:g} s", stage="reply", execution_started=None)
    return bytes(data)


def _parsed(data: bytes) -> dict[str, Any] | None:
    """The JSON object, as deep as answers are and in text that can be kept; None = it is none (NaN is no JSON)."""
    try:
        value = json.loads(data, parse_constant=_no_number)
        if not is_object(value) or not _shallow(value, _DEPTH):
            return None
        if b"\\u" in data:  # half a character can be written in JSON and nowhere else
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value


def _no_number(text: str) -> Never:
    raise ValueError(text)


def _shallow(value: object, left: int) -> bool:
    parts = value.values() if is_object(value) else cast("list[object]", value) if isinstance(value, list) else ()
    return left > 0 and all(_shallow(part, left - 1) for part in parts)


def _refusal(status: int, told: dict[str, Any] | None) -> Exception:
    said = told or {}
    error = said.get("error", said.get("detail", ""))
    text = str(error.get("message", error) if is_object(error) else error)[:300]
    started = False if status in REFUSED else None
    kind: Kind = _KIND.get(status, "task_failed" if started is False else "invalid_response")
    return problem(kind, f"the provider answered {status}: {text}", stage="reply", execution_started=started, details={"status": status})


def text_of(told: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """An id, word or address of an answer. Raises invalid_response (nothing proved) where none stands and there is no default."""
    value = told.get(name, default)
    if isinstance(value, str) and (value or default is not None) and len(value) <= _TEXT_CHARS and value.isprintable():
        return value
    raise problem("invalid_response", f"the answer has no {name}", stage="reply", execution_started=None)


def ratio(width: int, height: int) -> str:
    """`16:9`"""
    part = math.gcd(width, height) or 1
    return f"{width // part}:{height // part}"
