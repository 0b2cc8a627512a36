"""The one HTTP door of model sources, on httpx2: a POST and its answer, and every way it can fail with what that proves.

Theory of operation. The bare transport is used, not a client: no cookies, redirects, environment proxies or hidden retries, so
nothing of one call is left for another (the pool keeps connections, never state). An answer is read up to a cap; a compressed one
is not asked for and not read. Cancelling the caller closes the socket.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from .faults import Fault, Next, SourceError, invalid, judged
from .stream import Display

if TYPE_CHECKING:
    import ssl

    import httpx2

ANSWER_BYTES: Final = 32 << 20
CONNECT_S: Final = 10.0
CONNECTIONS: Final = 256
#: Longest time between two pieces of an answer, seconds; the call's own deadline stands above it.
SILENCE_S: Final = 600.0

#: Every exception of the transport: code, whether something may have left, what may follow. Nearest class first.
TRANSPORT: Final[dict[str, tuple[str, bool, Next]]] = {
    "ConnectError": ("connect_failed", False, "again"), "ConnectTimeout": ("connect_failed", False, "again"),
    "PoolTimeout": ("connect_failed", False, "again"), "ProxyError": ("connect_failed", False, "again"),
    "UnsupportedProtocol": ("bad_request", False, "elsewhere"), "LocalProtocolError": ("bad_request", False, "elsewhere"),
    "InvalidURL": ("bad_request", False, "elsewhere"),
    "ReadTimeout": ("timeout", True, "again"), "WriteTimeout": ("timeout", True, "again"), "TimeoutException": ("timeout", True, "again"),
    "ReadError": ("connection_lost", True, "again"), "WriteError": ("connection_lost", True, "again"),
    "CloseError": ("connection_lost", True, "again"), "RemoteProtocolError": ("connection_lost", True, "again"),
    "NetworkError": ("connection_lost", True, "again"), "ProtocolError": ("connection_lost", True, "again"),
    "SSEError": ("invalid_response", True, "again"),
    "DecodingError": ("invalid_response", True, "again"), "TooManyRedirects": ("invalid_response", True, "elsewhere"),
    "TransportError": ("connection_lost", True, "again"), "RequestError": ("connection_lost", True, "again"),
}  # fmt: skip


def classify(error: Exception) -> Fault | None:
    """The fault behind an exception of a source on this wire; None = nobody knows it."""
    known = judged(error)
    if known is not None:
        return known
    for kind in type(error).__mro__:
        if kind.__module__.partition(".")[0] == "httpx2" and kind.__name__ in TRANSPORT:
            code, sent, then = TRANSPORT[kind.__name__]
            return Fault(code, sent=sent, next=then, message=f"{type(error).__name__}: {error}"[:500])
    return None


class Answer(Struct, frozen=True):
    """What came back. Header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@functools.cache
def _trusted() -> ssl.SSLContext:
    """The certificates that are trusted: read once per process, which takes tens of milliseconds."""
    import httpx2

    return httpx2.create_ssl_context(trust_env=False)


class Wire:
    """Connections of one process and tenant. `aclose` when done."""

    def __init__(self, answer_bytes: int = ANSWER_BYTES, display: Display | None = None) -> None:
        """`display` gets the text of replies as it comes."""
        self._answer_bytes, self.display = answer_bytes, display
        self._transport: Any = None

    def _open(self) -> httpx2.AsyncHTTPTransport:
        import httpx2

        if self._transport is None:
            limits = httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS // 4)
            self._transport = httpx2.AsyncHTTPTransport(retries=0, verify=_trusted(), trust_env=False, limits=limits)
        return self._transport

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, seen: Callable[[bytes], None] | None = None) -> Answer:
        """Send and read to the end; `seen` gets each piece of a good answer as it comes.

        Raises SourceError for an answer too large or compressed, and what the transport raises.
        """
        import httpx2

        plain = {"accept": "application/json", "accept-encoding": "identity", "content-type": "application/json", **headers}
        timeout = {"connect": CONNECT_S, "read": SILENCE_S, "write": SILENCE_S, "pool": SILENCE_S}
        request = httpx2.Request("POST", url, headers=plain, content=body, extensions={"timeout": timeout})
        response = await self._open().handle_async_request(request)
        try:
            return Answer(response.status_code, {k.lower(): v for k, v in response.headers.items()}, await self._read(response, seen))
        finally:
            await response.aclose()

    async def _read(self, response: httpx2.Response, seen: Callable[[bytes], None] | None) -> bytes:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise invalid("the answer is compressed, which was not asked for")
        pieces: list[bytes] = []
        size = 0
        async for piece in response.aiter_raw():
            size += len(piece)
            if size > self._answer_bytes:
                why = f"the answer is larger than {self._answer_bytes} bytes"
                raise SourceError(Fault("invalid_response", sent=True, next="elsewhere", message=why))
            pieces.append(piece)
            if seen is not None and response.is_success:
                seen(piece)
        return b"".join(pieces)

    async def aclose(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.aclose()
