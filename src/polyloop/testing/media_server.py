"""A media provider on loopback, in a process of its own, that writes down what it was asked and misbehaves on demand.

    with MediaServer(log, faults=["drop_reply"]) as server:
        provider = hosted("fal", server.url("fal"), "key")

It speaks the OpenAI images, fal queue, Replicate and ComfyUI dialects at once, and its files are real (the studio makes them). Each
submission takes the next fault; the last one does not stay. `submissions()` reads its log: what it accepted, in order.
"""

from __future__ import annotations

import argparse
import base64
import itertools
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Self, cast
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

from polyloop.media.provider import Mode, Output, Work
from polyloop.media.studio import Studio

#: What can go wrong with one submission.
FAULTS: Final = (
    "", "drop_reply", "refuse", "error_after", "twice", "no_id", "fail_late", "truncate", "cut", "wrong_type", "wrong_size", "lost", "stuck",
    "slow", "cancel_late", "cancel_refused", "poll_refused", "by_url", "empty_result", "stopped",
)  # fmt: skip
_FILE_BYTES: Final = 64 << 20
#: Polls until a job has ended.
_POLLS: Final = {"slow": 6, "stuck": 10**9}


class Made(Struct):
    """One accepted piece of work."""

    id: str
    work: Work
    fault: str
    polls: int = 0
    cancelled: bool = False

    def state(self) -> str:
        if self.cancelled and self.fault != "cancel_late":
            return "cancelled"
        if self.fault == "stopped" and self.polls > 1:  # by nobody's wish
            return "cancelled"
        if self.polls < (2 if self.cancelled else _POLLS.get(self.fault, 2)):
            return "queued" if self.polls == 1 else "running"
        return "failed" if self.fault == "fail_late" else "succeeded"

    def file(self) -> bytes:
        work = self.work
        if self.fault == "wrong_type":
            return b"<html>not what was asked for</html>"
        if self.fault == "wrong_size":
            work = Work(id=work.id, mode=work.mode, model=work.model, prompt=work.prompt, width=64, height=64, seconds=work.seconds + 2)
        data = Studio(lambda _: work).fetch(Output(url="studio:x"), _FILE_BYTES)
        return data[: len(data) * 2 // 3] if self.fault == "truncate" else data


class _Desk:
    """What the server knows, shared by its threads."""

    def __init__(self, log: Path, faults: list[str]) -> None:
        self.log, self.faults, self.jobs = log, faults, dict[str, Made]()
        self.lock, self.numbers = threading.Lock(), itertools.count(1)

    def note(self, **entry: Any) -> None:
        with self.lock, self.log.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def accept(self, dialect: str, body: dict[str, Any], work_id: str = "") -> Made:
        with self.lock:
            fault = self.faults.pop(0) if self.faults else ""
        job = Made(work_id or f"{dialect}-{next(self.numbers)}", _work(body), fault)
        if fault != "refuse":
            if fault != "lost":
                self.jobs[job.id] = job
            self.note(event="submit", dialect=dialect, job=job.id, prompt=job.work.prompt, fault=fault)
        return job


def _work(body: dict[str, Any]) -> Work:
    seconds = float(body.get("duration") or 0)
    video = "generate_audio" in body
    mode: Mode = "video" if video else "audio" if seconds and not body.get("width") else "image"
    width, _, height = str(body.get("size") or f"{body.get('width') or 0}x{body.get('height') or 0}").partition("x")
    return Work(
        id="", mode=mode, model="", prompt=str(body.get("prompt")), width=int(width), height=int(height), seconds=seconds,
        sound=bool(body.get("generate_audio")),
    )  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    desk: _Desk

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name it overrides
        return

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PUT = do_GET  # noqa: N815

    def _serve(self) -> None:
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        dialect, _, rest = path.strip("/").partition("/")
        if dialect == "file":
            self._file(rest)
        elif dialect == "comfyui":
            self._comfyui(rest, query, _json(raw))
        else:
            {"openai": self._openai, "fal": self._fal, "replicate": self._replicate}[dialect](
                rest, _fields(self.headers.get("content-type", ""), raw)
            )

    # dialects

    def _openai(self, rest: str, body: dict[str, Any]) -> None:
        job = self.desk.accept("openai", body)
        data = job.file() if job.fault not in ("refuse", "lost", "fail_late") else b""
        by_url = {"url": f"{self._here('file')}/{job.id}"}
        told: dict[str, Any] = {"created": 1, "data": [by_url if job.fault == "by_url" else {"b64_json": base64.b64encode(data).decode()}]}
        self._submitted(job, {"data": []} if job.fault in ("no_id", "empty_result", "lost", "fail_late") else told)

    def _fal(self, rest: str, body: dict[str, Any]) -> None:
        here, parts = self._here("fal"), rest.split("/")
        if "requests" not in parts:
            job = self.desk.accept("fal", body)
            links = {f"{name}_url": f"{here}/x/requests/{job.id}/{name}" for name in ("status", "response", "cancel")}
            self._submitted(job, {"request_id": job.id, **links})
        elif (asked := self._job(parts[2], poll=parts[-1] == "status")) is None:
            self._json(404, {"detail": "not found"})
        elif self._says_no(asked, parts[-1]):
            self._json(400, {"status": "ALREADY_COMPLETED"})
        elif parts[-1] == "cancel":
            asked.cancelled = True
            self._json(202, {"status": "CANCELLATION_REQUESTED"})
        elif parts[-1] == "status":
            state = asked.state()
            words = {"queued": "IN_QUEUE", "running": "IN_PROGRESS"}
            failed = {"error": "out of memory"} if state == "failed" else {"error": "cancelled"} if state == "cancelled" else {}
            self._json(200, {"status": words.get(state, "COMPLETED"), **failed})
        else:
            name = {"image": "images", "video": "video", "audio": "audio"}[asked.work.mode]
            url = {"url": f"{self._here('file')}/{asked.id}"}
            self._json(200, {} if asked.fault == "empty_result" else {name: [url] if name == "images" else url})

    def _replicate(self, rest: str, body: dict[str, Any]) -> None:
        parts = rest.split("/")
        if parts[0] == "models":
            job = self.desk.accept("replicate", body["input"])
            self._submitted(job, {"id": job.id, "status": "starting"})
            return
        asked = self._job(parts[1], poll=len(parts) == 2)
        if asked is None:
            self._json(404, {"detail": "not found"})
            return
        if self._says_no(asked, parts[-1]):
            self._json(401, {"detail": "not you"})
            return
        asked.cancelled = asked.cancelled or parts[-1] == "cancel"
        state = asked.state()
        words = {"queued": "starting", "running": "processing", "cancelled": "canceled"}
        output = [f"{self._here('file')}/{asked.id}"] if state == "succeeded" and asked.fault != "empty_result" else None
        self._json(200, {"id": asked.id, "status": words.get(state, state), "output": output, "error": "NaN" if state == "failed" else None})

    def _comfyui(self, rest: str, query: dict[str, list[str]], body: dict[str, Any]) -> None:
        verb, _, name = rest.partition("/")
        if verb == "prompt":
            job = self.desk.accept("comfyui", body["prompt"]["1"]["inputs"], body["prompt_id"])
            self._submitted(job, {"prompt_id": job.id, "number": 1, "node_errors": {}})
        elif verb == "view":
            self._file(query["filename"][0])
        elif verb == "history":
            asked = self._job(name, poll=True)
            state = asked.state() if asked else ""
            files = [] if asked and asked.fault == "empty_result" else [{"filename": name, "subfolder": "", "type": "output"}]
            status = {"status_str": "error" if state == "failed" else "success", "completed": state == "succeeded", "messages": ["NaN"]}
            ended = state in ("succeeded", "failed")
            self._json(200, {name: {"outputs": {"9": {"images": files}}, "status": status}} if ended else {})
        elif verb == "queue" and not body:
            waiting = [[1, j.id] for j in self.desk.jobs.values() if j.state() in ("queued", "running")]
            self._json(200, {"queue_running": waiting[:1], "queue_pending": waiting[1:]})
        else:  # interrupt, or taken out of the queue
            for job_id in [*body.get("delete", []), body.get("prompt_id")]:
                if job_id in self.desk.jobs:
                    self.desk.jobs[job_id].cancelled = True
            self._send(200, "text/plain", 0, b"")  # as the real one answers

    # parts

    def _here(self, dialect: str) -> str:
        return f"http://{self.headers['host']}/{dialect}"

    def _job(self, job_id: str, *, poll: bool) -> Made | None:
        job = self.desk.jobs.get(job_id)
        if job is not None and poll:
            job.polls += 1
        return job

    @staticmethod
    def _says_no(job: Made, verb: str) -> bool:
        return job.fault == ("cancel_refused" if verb == "cancel" else "poll_refused")

    def _submitted(self, job: Made, told: dict[str, Any]) -> None:
        if job.fault == "drop_reply":
            self.close_connection = True
        elif job.fault == "refuse":
            self._json(422, {"error": {"message": "not allowed here"}})
        elif job.fault == "error_after":
            self._json(502, {})
        elif job.fault == "no_id" and "data" not in told:
            self._json(200, {"ok": True})
        else:
            for _ in range(2 if job.fault == "twice" else 1):
                self._json(200, told)

    def _file(self, job_id: str) -> None:
        job = self.desk.jobs[job_id]
        data = job.file()
        self._send(200, "application/octet-stream", len(data), data[: len(data) // 2] if job.fault == "cut" else data)

    def _json(self, status: int, told: dict[str, Any]) -> None:
        data = json.dumps(told).encode()
        self._send(status, "application/json", len(data), data)

    def _send(self, status: int, kind: str, size: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(size))
        self.end_headers()
        self.wfile.write(data)
        self.close_connection = self.close_connection or size != len(data)


def _json(raw: bytes) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(raw)) if raw else {}


def _fields(kind: str, raw: bytes) -> dict[str, Any]:
    """JSON, or the text fields of a form."""
    if not kind.startswith("multipart/form-data"):
        return _json(raw)
    out: dict[str, Any] = {}
    for part in raw.split(b"--" + kind.partition("boundary=")[2].encode()):
        head, _, value = part.partition(b"\r\n\r\n")
        if b"filename=" not in head and b'name="' in head:
            out[head.partition(b'name="')[2].partition(b'"')[0].decode()] = value.strip().decode()
    return out


class MediaServer:
    """The server, in a process of its own. Use as a context manager."""

    def __init__(self, log: Path, faults: list[str] | None = None) -> None:
        self.log, self._faults = log, faults or []

    def __enter__(self) -> Self:
        self.log.touch()
        command = [sys.executable, "-m", "polyloop.testing.media_server", "--log", str(self.log)]
        self._process = subprocess.Popen([*command, *(f"--fault={name}" for name in self._faults)], stdout=subprocess.PIPE, text=True)  # noqa: S603  # our own module
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def url(self, dialect: str) -> str:
        return f"http://127.0.0.1:{self.port}/{dialect}"

    def submissions(self) -> list[dict[str, Any]]:
        return [entry for line in self.log.read_text().splitlines() if (entry := json.loads(line))["event"] == "submit"]


def main() -> None:
    """Serve until killed; the first line printed is the port."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--fault", action="append", default=[], choices=FAULTS)
    options = parser.parse_args()
    _Handler.desk = _Desk(options.log, options.fault)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
