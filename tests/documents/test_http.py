"""The service over a real socket: what a failure on the way proves, and what the caller may never choose."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest

from polyloop.contract.problem import ProblemError
from polyloop.db import Database
from polyloop.documents import requests as ask
from polyloop.documents.access import role_of
from polyloop.documents.http import BODY_BYTES, DocApp, HttpTransport, respond
from polyloop.documents.media import _bytes
from polyloop.documents.runtime import DocRuntime
from polyloop.documents.store import OPEN
from tests.documents.office import Office

Spoil = Callable[[int, bytes], tuple[int, bytes] | None]


class Desk(ThreadingHTTPServer):
    """With room for all who knock at once; the default queue of five turns some away."""

    request_queue_size = 64


class Server:
    """The ASGI app behind a plain socket. `spoil` may change an answer; None = the connection is cut instead."""

    def __init__(self, app: DocApp) -> None:
        self.spoil: Spoil = lambda code, body: (code, body)
        self.requests = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                server.requests += 1
                body = self.rfile.read(int(self.headers["content-length"]))
                code, answer = asyncio.run(asked(app, body, "POST", self.headers.get("x-tenant")))
                spoilt = server.spoil(code, answer)
                if spoilt is None:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                self.send_response(spoilt[0])
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(spoilt[1])

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name of the class above
                """Quiet."""

        self.http = Desk(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/documents"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()


async def asked(app: DocApp, body: bytes, method: str = "POST", tenant: str | None = None) -> tuple[int, bytes]:
    """One request to an ASGI app, its body in two pieces."""
    pieces = [
        {"type": "http.request", "body": body[:7], "more_body": True}, {"type": "http.request", "body": body[7:]},
    ]  # fmt: skip
    sent: list[Any] = []

    async def receive() -> Any:
        return pieces.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    await app({"type": "http", "method": method, "tenant": tenant}, receive, send)
    return sent[0]["status"], sent[1]["body"]


@pytest.fixture
def server(db: Database) -> Iterator[Server]:
    made = Server(DocApp(db, lambda scope: scope["tenant"]))
    yield made
    made.http.shutdown()
    made.http.server_close()


def over(server: Server, db: Database, tenant: str = "", **more: Any) -> Office:
    office = Office(db, tenant)
    transport = HttpTransport(server.url, headers={"x-tenant": office.tenant}, timeout_s=5, **more)
    office.runtime = DocRuntime(db, office.tenant, office.clock.now_ms, office._id, transport, office.waits.append)
    return office


def test_a_document_over_http(server: Server, db: Database) -> None:
    office = over(server, db, chunk_chars=200)
    node_id = office.new("N", "\n".join(f"paragraph {n}\n" for n in range(10)))
    revision = office.do("inspect", {"nodeId": node_id})["data"]["revision"]
    office.do("update", {"nodeId": node_id, "command": "append", "content": "end\n", "expectedRevision": revision})
    assert office.text(node_id).count("paragraph") == 10
    assert office.do("list", {})["complete"] is True
    office.refused("not_found", "fetch", {"nodeId": "n_none"})
    office.refused("revision_conflict", "update", {"nodeId": node_id, "command": "append", "content": "x", "expectedRevision": 1})


#: What becomes of a good answer on its way.
SPOILT: dict[str, Callable[[bytes], tuple[int, bytes] | None]] = {
    "cut": lambda _: None,
    "half": lambda body: (200, body[: len(body) // 2]),
    "502": lambda body: (502, b"<html>" + body[6:]),
    "text": lambda body: (200, b"o" * len(body)),
    "empty": lambda body: (200, b"{}" + b" " * (len(body) - 2)),
}


@pytest.mark.parametrize("how", SPOILT)
def test_a_reply_that_is_lost_or_spoilt_proves_nothing(server: Server, db: Database, how: str) -> None:
    office = over(server, db)
    node_id = office.new()
    writes = 0

    def only_writes(code: int, body: bytes) -> tuple[int, bytes] | None:
        nonlocal writes
        if b'"before"' not in body:
            return code, body
        writes += 1
        return SPOILT[how](body)

    server.spoil = only_writes
    receipt = office.receipt("update", {"nodeId": node_id, "command": "append", "content": "two\n"})
    assert (receipt.status, writes) == ("unknown", 1)
    server.spoil = lambda code, body: (code, body)
    assert office.do("reconcile", {"operationId": receipt.data["operationId"]})["status"] == "success"
    assert office.text(node_id) == "one\n\ntwo\n"


def test_a_service_that_is_not_there_was_never_asked(db: Database) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        transport = HttpTransport(f"http://127.0.0.1:{held.getsockname()[1]}/")
        with pytest.raises(ProblemError) as caught:
            transport.ask(ask.Describe(node="n"))
    assert (caught.value.problem.kind, caught.value.problem.execution_started) == ("capability_unavailable", False)
    for url in ("", "ftp://x/", "http:///x", "x", "http://[x/", "http://x:65536/", "http://x:y/"):
        with pytest.raises(ProblemError):
            HttpTransport(url)


@pytest.mark.parametrize("data", [None, 7, "no base64!", "YQ=", ["YQ=="]])
def test_what_a_service_gives_for_bytes_and_is_none_lands_nowhere(data: object) -> None:
    with pytest.raises(ProblemError) as caught:
        _bytes(data)
    assert caught.value.problem.kind == "invalid_response"
    assert (_bytes("YQ=="), _bytes(b"a")) == (b"a", b"a")


def test_the_tenant_comes_from_who_calls_and_never_from_the_letter(server: Server, db: Database) -> None:
    owner = Office(db)
    node_id = owner.new()
    stranger = over(server, db)
    stranger.refused("not_found", "fetch", {"nodeId": node_id})
    app = DocApp(db, lambda scope: scope["tenant"])
    letter = {"request": {"verb": "describe", "node": node_id}}
    code, body = asyncio.run(asked(app, json.dumps(letter).encode()))
    assert (code, json.loads(body)["error"]["kind"]) == (401, "authentication_required")
    for wrong in ({**letter, "tenant": owner.tenant}, {"request": {"verb": "describe", "node": node_id, "tenant": owner.tenant}}):
        code, body = asyncio.run(asked(app, json.dumps(wrong).encode(), tenant="x"))
        assert (code, json.loads(body)["error"]["kind"]) == (400, "validation")


@pytest.mark.parametrize(
    "letter",
    [
        b"", b"{", b"[]", b'"x"', b'{"request": 5}', b'{"request": {"verb": "drop"}}', b'{"request": {"verb": "nodes", "limit": 9999}}', b"\xff\xfe",
        b'{"request": {"verb": "create", "node": "n_x", "title": "t"}}',
        b'{"stepId": "s1", "request": {"verb": "create", "node": "n_x", "title": "t", "blocks": ["not a block"]}}',
        b'{"stepId": "s2", "request": {"verb": "create", "node": "n_x", "title": "t", "type": "folder", "blocks": ["{\\"type\\":\\"code\\"}"]}}',
        b'{"stepId": "s3", "request": {"verb": "edit", "node": "n_x", "expected": "1"}}',
        b'{"request":' + b"[" * 100_000,
        b'{"stepId": "s8", "request": {"verb": "create", "node": "n_x", "title": "t", "blocks": ["{\\"x\\":' + b"[" * 50_000 + b'"]}}',
        b'{"request": {"verb": "nodes", "cursor": "' + b"9" * 5000 + b'"}}', b'{"request": {"verb": "nodes", "snapshot": "x"}}',
        b'{"request": {"verb": "nodes", "cursor": "99999999999999999999"}}', b'{"request": {"verb": "nodes", "cursor": "\xd9\xa3"}}',
        b'{"request": {"verb": "content", "node": "n_x", "revision": 9223372036854775808}}',
        b'{"request": {"verb": "facts", "node": "n_x", "revision": 1, "version": 9223372036854775808}}',
        b'{"stepId": "s4", "request": {"verb": "edit", "node": "n_x", "blocks": ["{\\"type\\":\\"code\\"}"], "ids": ["a", "b"]}}',
        b'{"stepId": "s5", "request": {"verb": "edit", "node": "n_x", "blocks": ["{\\"type\\":\\"code\\"}"], "ids": ["b_1"]}}',
        b'{"stepId": "s6", "request": {"verb": "edit", "node": "n_x", "remove": ["b_1", "b_1"]}}',
        b'{"stepId": "s7", "request": {"verb": "edit", "node": "n_x", "remove": ["b_1"], "change": {"b_1": "{\\"type\\":\\"code\\"}"}}}',
    ],
)  # fmt: skip
def test_whatever_a_letter_says_is_answered(db: Database, letter: bytes) -> None:
    office = Office(db)
    before = office.everything()
    code, body = asyncio.run(asked(DocApp(db, lambda _: office.tenant), letter))
    assert (code, json.loads(body)["error"]["kind"]) == (400, "validation")
    assert office.everything() == before


def test_a_letter_over_the_limit_and_one_cut_short(db: Database) -> None:
    app = DocApp(db, lambda _: "t")
    assert asyncio.run(asked(app, b"x" * (BODY_BYTES + 1)))[0] == 400
    assert asyncio.run(asked(app, b"{}", "GET"))[0] == 405


def test_one_step_id_is_one_write(db: Database) -> None:
    office = Office(db)
    app = DocApp(db, lambda _: office.tenant)

    def post(step_id: str, title: str) -> tuple[int, Any]:
        letter = {"stepId": step_id, "request": {"verb": "create", "node": "n_1", "title": title}}
        code, body = asyncio.run(asked(app, json.dumps(letter).encode()))
        return code, json.loads(body)

    first = post("s", "a")
    assert first == post("s", "a")
    assert post("s", "b")[1]["error"]["kind"] == "conflict"
    assert post("other", "a")[1]["error"]["kind"] == "conflict"
    assert len(office.documents()) == 1


def _comment(**more: Any) -> str:
    return json.dumps({"author": "u", "content": "c", "at": 1, "state": "open", "replies": [], **more})


#: Items that are none of their kind: (kind, item, mark, body).
JUNK = [
    *(("comment", "c1", "open", body) for body in (
        "no json", "{}", "[]", '{"replies":5}', "[" * 100_000, _comment(replies=[{"author": 1}]), _comment(replies=None), _comment(more=1),
        _comment(state="shut"), _comment(anchor={"blockId": 5}), _comment(at="x"), '"\\ud800"',
    )),
    ("comment", "c1", "resolved", _comment()), ("comment", "", "open", _comment()),
    ("access", "w", "READER", '{"role":"MANAGER"}'), ("access", "w", "READER", "zzz"), ("access", "w", "KING", '{"role":"KING"}'),
    ("access", "w", "", '{"role":""}'), ("access", "w", "READER", "[]"), ("access", "", "READER", '{"role":"READER"}'),
    ("media", "m1", "", "{}"), ("media", "m1", "x", '{"name":"a","type":"b","bytes":"c","sha256":"x"}'), ("media", "m1", "x", "null"),
]  # fmt: skip


@pytest.mark.parametrize("user", ["", "u"])
def test_an_item_that_is_none_of_its_kind_is_refused_by_whoever_it_comes(office: Office, user: str) -> None:
    node = office.new()
    office.do("access_grant", {"nodeId": node, "user": "u", "role": "MANAGER"})
    rows = office.db.look(lambda tx: tx.rows("select * from doc_item where tenant = ?", office.tenant))
    for n, (kind, item, mark, body) in enumerate(JUNK):
        request = {"verb": "attach", "node": node, "kind": kind, "item": item, "mark": mark, "body": body}
        letter = json.dumps({"request": request, "stepId": f"s{n}/1/write"}).encode()
        code, told = asyncio.run(respond(office.db, office.tenant, letter, user))
        assert (code, json.loads(told)["error"]["kind"]) == (400, "validation"), (kind, mark, body)
        assert json.loads(told)["error"]["executionStarted"] is False
    assert office.db.look(lambda tx: tx.rows("select * from doc_item where tenant = ?", office.tenant)) == rows


def test_a_role_is_what_its_mark_says(office: Office) -> None:
    """Rows from before bodies were checked: what is no role of ours is none, and what a body claims counts for nothing."""
    node = office.new()
    for user, mark, body in (("a", "READER", '{"role":"MANAGER"}'), ("b", "READER", "zzz"), ("c", "KING", "{}")):
        office.db.write_sync(
            lambda tx, u=user, m=mark, b=body: tx.run(
                "insert into doc_item values (?, ?, 'access', ?, 1, 1, ?, ?, ?)", office.tenant, node, u, OPEN, m, b
            )
        )
    heights = [office.db.look(role_of, office.tenant, user, node) for user in "abc"]
    assert heights == [1, 1, 0]


def test_others_words_are_nobodys_to_change(office: Office) -> None:
    """An editor settles or takes away a comment; what it says, and who said it, stays."""
    node = office.new()
    for user, role in (("u", "READER"), ("v", "MANAGER")):
        office.do("access_grant", {"nodeId": node, "user": user, "role": role})
    said = _comment(replies=[{"author": "v", "content": "r", "at": 2}])

    def put(user: str, step: str, body: str, mark: str = "open") -> int:
        request = {"verb": "attach", "node": node, "kind": "comment", "item": "c1", "mark": mark, "body": body}
        return asyncio.run(respond(office.db, office.tenant, json.dumps({"request": request, "stepId": step}).encode(), user))[0]

    assert put("u", "s1", _comment()) == 200
    assert put("v", "s2", said) == 200
    reply = {"author": "v", "content": "r", "at": 2}
    for n, (user, body) in enumerate([
        ("v", _comment(content="other", replies=[reply])), ("v", _comment(author="v", replies=[reply])), ("u", _comment()),
        ("u", _comment(replies=[{**reply, "content": "other"}])), ("u", _comment(author="v", replies=[reply])),
        ("u", _comment(replies=[reply, {**reply, "content": "as v"}])), ("u", _comment(content="new", replies=[reply, {**reply, "author": "u"}])),
    ]):  # fmt: skip
        assert put(user, f"w{n}", body) == 403, body
    assert put("u", "s3", _comment(content="mine", replies=[reply])) == 200
    assert put("v", "s4", _comment(content="mine", state="resolved", replies=[reply]), "resolved") == 200


HOSTILE = [
    "",
    "root",
    "n_none",
    "\x00",
    "\ud800",
    "x" * 5_000,
    -1,
    2**63,
    1e300,
    None,
    True,
    [],
    ["a", "a"],
    {},
    {"a": "b"},
    "media",
    "access",
    "live",
]


@pytest.mark.parametrize("kind", sorted(ask.Request.__args__, key=lambda kind: kind.__name__))
def test_whatever_a_letter_says_it_is_answered(office: Office, kind: type) -> None:
    """With a typed error, or with what was asked for; by the owner and by somebody without a role."""
    node, box = office.new("D", "one\n"), office.do("create_folder", {"title": "F"})["data"]["nodeId"]
    plain = {
        "node": node,
        "source": node,
        "container": box,
        "step_id": "s/1/write",
        "title": "T",
        "query": "one",
        "kind": "comment",
        "item": "c",
        "revision": 1,
    }
    names = msgspec.structs.fields(kind)
    sound = {"verb": kind.__name__.lower(), **{f.encode_name: plain[f.name] for f in names if f.name in plain}}
    letters = [sound, *({**sound, field.encode_name: value} for field in names for value in [*HOSTILE, node, box])]
    for n, request in enumerate(letters):
        for user in ("", "u"):
            body = json.dumps({"request": request, "stepId": f"{user}{n}/1/write"}).encode()
            code, told = asyncio.run(respond(office.db, office.tenant, body, user))
            assert (code == 200) != ("error" in json.loads(told)), request


@pytest.mark.parametrize(
    ("scope", "told", "sent"),
    [
        ("lifespan", ["lifespan.startup", "lifespan.shutdown"], ["lifespan.startup.complete", "lifespan.shutdown.complete"]),
        ("websocket", ["websocket.connect"], ["websocket.close"]),
    ],
)
def test_a_server_starts_and_stops_it_and_gets_no_socket(db: Database, scope: str, told: list[str], sent: list[str]) -> None:
    answers: list[str] = []

    async def receive() -> Any:
        return {"type": told.pop(0)}

    async def send(message: Any) -> None:
        answers.append(message["type"])

    def nobody(_: Any) -> str:
        raise AssertionError("nobody is asked for: there is no request")

    asyncio.run(DocApp(db, nobody)({"type": scope}, receive, send))
    assert answers == sent
