"""The service over HTTP: one POST of one request, and the client that knows what a failure proves.

Server: an ASGI app to be mounted by whoever authenticates; the tenant comes from there and never from the request. Client: what
fails before a byte was sent has not begun; what fails after that proves nothing (S0.9, S0.39); nothing is ever sent twice.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from ..contract.problem import ErrorReply, Problem, ProblemError, as_wire, is_object, problem, refusal
from ..db import CommitUnknown, Database, DbError
from ..files.threads import in_thread
from . import requests as ask
from .service import asks_small, made_small, serve

BODY_BYTES: Final = 64 << 20
#: A reply may hold a whole document, which many letters brought.
REPLY_BYTES: Final = 1 << 30
#: HTTP numbers by kind, for those who read nothing else; the typed body says more. Kinds not named: 500.
_CODES: Final = {
    "validation": 400, "type_mismatch": 400, "not_found": 404, "ambiguous": 409, "revision_conflict": 409, "conflict": 409,
    "permission_denied": 403, "authentication_required": 401,
}  # fmt: skip

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]


class Letter(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What travels."""

    request: Any
    step_id: ask.StepId = ""


async def respond(db: Database, tenant: str, body: bytes, user: str = "") -> tuple[int, bytes]:
    """The HTTP code and the body of the answer to one letter. Never raises for anything a letter can say."""
    try:
        letter = msgspec.json.decode(body, type=Letter)
        request = ask.decode(letter.request)
        carry = db.read if isinstance(request, ask.READING) else db.write
        reply = await carry(serve, tenant, request, letter.step_id, user)
        return 200, _text(await in_thread(lambda: made_small(request, reply), lambda: None) if asks_small(request) else reply)
    except (msgspec.MsgspecError, RecursionError) as error:
        return _refused(Problem("validation", f"not a request: {error}", stage="arguments"))
    except ProblemError as stop:
        return _refused(stop.problem)
    except CommitUnknown as error:
        return _refused(Problem("commit_unknown", str(error), stage="commit", execution_started=None))
    except DbError as error:
        return _refused(Problem("local_io", str(error), stage="store"))


def _refused(why: Problem) -> tuple[int, bytes]:
    return _CODES.get(why.kind, 500), _text(as_wire(ErrorReply(why)))


def _text(value: object) -> bytes:
    return msgspec.json.encode(value)


class DocApp:
    """ASGI. `tenant_of(scope)` = whose documents the caller may use, None = nobody's; `user_of(scope)` = who of the tenant it is."""

    def __init__(self, db: Database, tenant_of: Callable[[Scope], str | None], user_of: Callable[[Scope], str] = lambda _: "") -> None:
        self._db, self._tenant_of, self._user_of = db, tenant_of, user_of

    async def __call__(self, scope: Scope, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]) -> None:
        if scope["type"] == "lifespan":
            await _lived(receive, send)
            return
        if scope["type"] == "websocket":  # refused before it is accepted: the server answers 403
            await send({"type": "websocket.close", "code": 1000, "reason": ""})
            return
        code, body = await self._answer(scope, receive)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": code, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope, receive: Callable[[], Awaitable[Message]]) -> tuple[int, bytes]:
        tenant = self._tenant_of(scope)
        if tenant is None:
            return _refused(Problem("authentication_required", "say who you are", stage="authentication"))
        if scope["method"] != "POST":
            return 405, _text({})
        body, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] != "http.request":  # the caller is gone; half a request is none
                return 400, _text({})
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > BODY_BYTES:
                return _refused(Problem("validation", f"over {BODY_BYTES} bytes", stage="arguments"))
        return await respond(self._db, tenant, bytes(body), self._user_of(scope))


async def _lived(receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]) -> None:
    """Nothing is to be made ready: the store is whose who opened it."""
    while True:
        what = (await receive())["type"]
        await send({"type": f"{what}.complete"})
        if what == "lifespan.shutdown":
            return


class HttpTransport:
    """One connection a request: none is ever reused or retried behind our back. `timeout_s` for connecting and for each read."""

    def __init__(self, url: str, *, headers: Mapping[str, str] | None = None, timeout_s: float = 30, chunk_chars: int = 0) -> None:
        """Raises ProblemError(validation) for a URL that is no address."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise problem("validation", f"no address of a service: {error}", stage="arguments") from error
        if parts.scheme not in ("http", "https") or not host:
            raise problem("validation", f"no address of a service: {url!r}", stage="arguments")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._open: Callable[[], http.client.HTTPConnection] = lambda: kind(host, port, timeout=timeout_s)
        self._path, self._headers, self.chunk_chars = parts.path or "/", {"Content-Type": "application/json", **(headers or {})}, chunk_chars

    def ask(self, request: ask.Request, step_id: str = "") -> ask.Reply:
        """Raises ProblemError; see `requests.Transport`."""
        body = _text(as_wire(Letter(request, step_id)))
        connection = self._open()
        try:
            connection.connect()
        except OSError as error:
            raise problem("capability_unavailable", f"the service cannot be reached: {error}", stage="connect") from error
        try:
            connection.request("POST", self._path, body, self._headers)
            response = connection.getresponse()
            data = response.read(REPLY_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            why = f"the reply was lost: {type(error).__name__}"
            raise problem("invalid_response", why, stage="reply", execution_started=None) from error
        finally:
            connection.close()
        if len(data) > REPLY_BYTES:
            raise problem("invalid_response", f"the reply is over {REPLY_BYTES} bytes", stage="reply", execution_started=None)
        told = _decoded(data)
        if response.status != http.client.OK:
            raise ProblemError(refusal(response.status, told))
        if not is_object(told):
            raise problem("invalid_response", "the reply is no object", stage="reply", execution_started=None)
        return told


def _decoded(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
