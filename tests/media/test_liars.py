"""Providers that lie: whatever they answer, no worker ends, nothing is sent twice, nothing is called complete, and the money is told."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from polyloop.contract.problem import ProblemError
from polyloop.media import limits, wire
from polyloop.media.hosted import hosted
from polyloop.media.provider import Job, Output
from tests.media.room import room
from tests.media.test_kills import WISH, outside
from tests.media.test_providers import GRAPH

pytestmark = pytest.mark.needs("media")


class Liar:
    """Answers the k-th word it hears with the k-th of its answers, the last one for ever: raw bytes, or JSON under a status. `heard` = its log."""

    def __init__(self, port: int) -> None:
        self.port, self.answers, self.heard = port, list[object](), list[tuple[str, str]]()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self) -> bytes:
        told = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(told, bytes):
            return told
        status, data = told if isinstance(told, tuple) else (200, told)
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        return b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n" % (status, len(body)) + body


@contextmanager
def lying() -> Iterator[Liar]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            return

        def do_GET(self):
            self.rfile.read(int(self.headers.get("content-length") or 0))
            liar.heard.append((self.command, self.path))
            told = liar.answer()
            for n in itertools.count() if told.endswith(b"...") else (0,):
                try:
                    self.wfile.write(told if n == 0 else b"x" * 65536)
                except OSError:
                    break
            self.close_connection = True

        do_POST = do_PUT = do_GET  # noqa: N815

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    liar = Liar(server.server_address[1])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield liar
    finally:
        server.shutdown()
        server.server_close()


def deep(levels: int) -> bytes:
    return b'{"id":"x","a":' + b"[" * levels + b"]" * levels + b"}"


#: What is said of a submission, and what proves nothing of it.
SUBMISSIONS = {
    "nan": b'{"id": NaN}', "nan beside": b'{"id": "x", "n": NaN}', "half a character": b'{"id": "\\ud800"}', "no text": b'{"id": 7}',
    "empty": b"", "null": b"null", "a list": b"[]", "no UTF-8": b'{"id": "\xff\xfe"}', "control": b'{"id": "a\\u0000b\\n"}',
    "long": {"id": "x" * 10**6},
    "deep": deep(500), "very deep": deep(200_000), "to a file": b"HTTP/1.1 302 X\r\nlocation: file:///etc/passwd\r\ncontent-length: 0\r\n\r\n",
    "to another": b"HTTP/1.1 307 X\r\nlocation: http://127.0.0.1:9/x\r\ncontent-length: 0\r\n\r\n", "odd status": (599, {"id": "x"}),
    "no HTTP": b"SSH-2.0-x\r\n\r\n", "no length": b"HTTP/1.1 200 X\r\ncontent-length: abc\r\n\r\n{}",
    "half": b"HTTP/1.1 200 X\r\ncontent-length: 99\r\n\r\n{",
    "refusal of half a character": (500, b'{"error": {"message": "\\udfff"}}'),
}  # fmt: skip


def test_S1_37_S1_81_whatever_is_said_of_a_submission_it_is_made_once_and_never_called_done(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "POLL_MS", 1)
    with lying() as liar, room(tmp_path, outside("replicate", liar.url)) as here:
        here.grant("1000")
        for n, (name, lie) in enumerate(SUBMISSIONS.items()):
            liar.answers, liar.heard = [lie], []
            task = here.call("generate_media", {**WISH, "nodeId": f"n{n}", "prompt": name})[0]["taskId"]
            here.worker.all()
            told, code = here.call("task_get", {"taskId": task})
            assert (told["state"], told["complete"], told["billing"]["state"], code) == ("unknown", False, "uncertain", 10), (name, told)
            assert len(liar.heard) == 1, name


GOOD = {"id": "j/../../x?y#z", "status": "starting"}


def result(url: str) -> dict[str, object]:
    return {"id": "j", "status": "succeeded", "output": [url]}


RESULTS = ["file:///etc/passwd", "http://[::1", "https://127.0.0.1:1/x", "https://localhost/x", "https://169.254.169.254/x", "https://[::1]/x",
           "//x/y",
           "https://metadata.internal/x", "https://localhost./x", "https://127.1/x", "https://0x7f.1/x", "https://2130706433/x",
           "https://a.localhost/x", "https://[::ffff:127.0.0.1]/x",
           "http://a\x00b/", "https://user@10.0.0.1/x", "data:image/png;base64,AAAA", "x" * 100_000,
           "https://" + "x" * 70_000 + ".example/"]  # fmt: skip


def test_S1_36_a_result_that_is_kept_nowhere_it_is_fetched_from_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "POLL_MS", 1)
    with lying() as liar, room(tmp_path, outside("replicate", liar.url)) as here:
        here.grant("1000")
        for n, url in enumerate(RESULTS):
            liar.answers, liar.heard = [GOOD, result(url)], []
            task = here.call("generate_media", {**WISH, "nodeId": f"n{n}", "prompt": f"w{n}"})[0]["taskId"]
            here.worker.all()
            told, _ = here.call("task_get", {"taskId": task})
            assert (told["state"], told["complete"], told["billing"]["state"]) == ("failed", False, "refunded"), url[:80]
            assert {path for verb, path in liar.heard if verb == "GET"} == {"/predictions/j%2F..%2F..%2Fx%3Fy%23z"}, "an id is no path"


#: What is said of a job that was accepted -> what becomes of its task.
POLLS = {
    "forgotten": ([(404, {"detail": "not found"})], "unknown", "uncertain"),
    "half a character": ([b'HTTP/1.1 200 X\r\n\r\n{"status": "failed", "error": "\\ud800"}'], "running", "reserved"),
    "of no kind": ([{"status": {"a": 1}}], "running", "reserved"),
    "a new word": ([{"status": "done!"}], "unknown", "uncertain"),
    "done without": ([{"status": "succeeded"}], "failed", "refunded"),
    "done, then failed": ([result("/none"), {"status": "failed"}], "failed", "refunded"),
    "an error that is no text": ([{"status": "failed", "error": {"a": [None]}}], "failed", "refunded"),
}  # fmt: skip


def test_S1_47_S1_90_whatever_is_said_of_a_job_is_told_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "POLL_MS", 1)
    with lying() as liar, room(tmp_path, outside("replicate", liar.url)) as here:
        here.grant("1000")
        for n, (name, (answers, state, money)) in enumerate(POLLS.items()):
            liar.answers, liar.heard = [GOOD, *answers], []
            task = here.call("generate_media", {**WISH, "nodeId": f"n{n}", "prompt": name})[0]["taskId"]
            for _ in range(limits.REFUSALS + 3):
                here.db.write_sync(lambda tx, task=task: tx.run("update task set due = 0 where id = ? and due < 9000000000000000", task))
                here.worker.one(task)
            told, _ = here.call("task_get", {"taskId": task})
            assert (told["state"], told["complete"], told["billing"]["state"]) == (state, False, money), (name, told)
            assert len([verb for verb, _ in liar.heard if verb == "POST"]) == 1, name


def test_S1_90_a_provider_that_falls_silent_can_be_settled_and_is_still_asked(tmp_path, monkeypatch):
    """Not for ever in progress with the money held: it is unknown, until it answers or a person says what its bill says."""
    monkeypatch.setattr(limits, "POLL_MS", 1)
    with lying() as liar, room(tmp_path, outside("replicate", liar.url)) as here:
        here.grant("1000")
        liar.answers = [GOOD, (503, {})]
        task = here.call("generate_media", WISH)[0]["taskId"]
        here.worker.one(task)
        here.worker.one(task)
        assert here.call("task_get", {"taskId": task})[0]["state"] == "running"
        assert here.call("task_cancel", {"taskId": task})[1] == 0
        monkeypatch.setattr(limits, "SILENT_MS", -1)
        here.db.write_sync(lambda tx: tx.run("update task set due = 0 where id = ?", task))
        here.worker.one(task)
        told, code = here.call("task_get", {"taskId": task})
        assert (told["state"], told["billing"]["state"], code) == ("unknown", "uncertain", 10)
        told, code = here.call("task_settle", {"taskId": task, "as": "not_charged"}, approved_by="person")
        assert (code, told["data"]["billing"]["state"]) == (0, "refunded")


def test_S1_81_an_answer_without_end_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(wire, "ANSWER_BYTES", 1 << 20)
    endless = b"HTTP/1.1 200 X\r\n\r\n..."
    with lying() as liar:
        liar.answers = [endless]
        provider = hosted("replicate", liar.url, "key")
        with pytest.raises(ProblemError) as stop:
            provider.poll(Job("j"))
        assert (stop.value.problem.kind, stop.value.problem.execution_started) == ("validation", None)
        with pytest.raises(ProblemError) as stop:
            provider.fetch(Output(url=f"{liar.url}/x"), 1 << 20)
        assert stop.value.problem.kind == "validation"
        slow = wire.Wire(liar.url, {}, total_s=0)  # the time is over with the first piece
        with pytest.raises(ProblemError) as stop:
            slow.ask("GET", "/x")
        assert (stop.value.problem.kind, stop.value.problem.execution_started) == ("invalid_response", None)


@pytest.mark.parametrize("key", ["geheim-ü", "a\nb", "a\x00", "\u202ekey"])
def test_a_key_no_header_can_carry_is_refused_and_not_repeated(key):
    with pytest.raises(ProblemError) as stop:
        hosted("fal", "http://127.0.0.1:9", key)
    assert stop.value.problem.kind == "validation"
    assert key not in str(stop.value.problem)


@pytest.mark.parametrize("base", ["http://[::1", "http://x:99999999", "http://a\x00b", "http://a b:x/", "http://"])
def test_an_address_that_cannot_be_asked_is_refused(base):
    with pytest.raises(ProblemError) as stop:
        hosted("comfyui", base, "", GRAPH)
    assert stop.value.problem.kind == "validation"


@pytest.mark.parametrize(
    "link", ["http://[::1", "http://127.0.0.1:9\x00/x", "http://127.0.0.1:9@evil.example/x", "http://127.0.0.1:9.evil.example/x"]
)
def test_a_link_that_is_no_address_is_never_asked(link):
    provider = hosted("fal", "http://127.0.0.1:9", "key")
    with pytest.raises(ProblemError) as stop:
        provider.poll(Job("r", {"status": link, "response": link, "cancel": link}))
    assert stop.value.problem.kind == "invalid_response"
