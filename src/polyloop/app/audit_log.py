"""The audit export: a wrapper around the log seam (S2.29, R43). What the log takes, the file takes; if it cannot, the run stops.

One JSON line per start, model step, tool call and end: `{"type": "model_step" | "tool_call" | ..., "tenant", "run", "seq", "at",
"payload"}`; a model step holds the raw reply beside the repaired text and the repairs' names, a tool call its arguments and outcome.
A file that is behind the log (a crash between the two) is caught up before the next line.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from polyloop.contract.problem import problem
from polyloop.kernel import records as r
from polyloop.kernel.machine import texts_of
from polyloop.kernel.objects import Json
from polyloop.kernel.records import BlobRef, Sealed, Text, bytes_text, canonical
from polyloop.kernel.seams import Log, StoreError, Stream
from polyloop.kernel.view import Materialiser

TYPE_BY_KIND: Final = {"run_started": "run_started", "step": "model_step", "action_result": "tool_call", "run_ended": "run_ended"}


#: How every line begins: its keys are sorted.
BEGINS: Final = b'{"at":'


class ForeignFile(Exception):
    """Not an audit file, so nothing of it is touched."""

    def __str__(self) -> str:
        return "it is a file of something else"


class Tap:
    """One stream on its way into the file: the reply and the intents its next lines need."""

    def __init__(self, stream: Stream, done: int) -> None:
        self.stream, self.done = stream, done
        self._texts: dict[str, str] = {}
        self._made = Materialiser(self._look)
        #: Fields of this reply's intents by call index: what its tool calls are told with.
        self._intents: dict[Json, dict[str, Json]] = {}

    def _look(self, text: Text) -> str:
        return self._texts.get(text.blob, f"[erased: {text.size} bytes]") if isinstance(text, BlobRef) else text

    def lines(self, records: Sequence[Sealed], blobs: Mapping[str, bytes]) -> bytes:
        """The lines these records give, those the file already holds left out."""
        out: list[bytes] = []
        for s in records:
            if s.kind == "model_intent":
                self._texts.clear()
            self._texts.update((d, bytes_text(blobs[d])) for d in digests_of([s]) if d in blobs)
            fields = self._made.feed(s)
            if s.kind == "model_result":
                self._intents.clear()
            elif s.kind == "action_intent" and s.body is not None:
                self._intents[fields["call"]] = fields
            if s.kind in TYPE_BY_KIND and s.seq > self.done:
                out.append(self._line(s, fields))
                self.done = s.seq
        return b"".join(out)

    def _line(self, s: Sealed, fields: dict[str, Json]) -> bytes:
        reply, payload = self._made.reply, {k: v for k, v in fields.items() if k not in ("prev", "hash", "seq", "kind", "at")}
        if s.kind == "step" and reply is not None:
            payload["reply"] = self._look(reply.text)
        intent = self._intents.get(fields.get("call")) if s.kind == "action_result" else None
        if intent is not None:
            payload |= {name: intent[name] for name in ("tool", "args", "key", "replay")}
        head: dict[str, Json] = {"type": TYPE_BY_KIND[s.kind], "tenant": self.stream.scope, "run": self.stream.run, "seq": s.seq, "at": s.at}
        return canonical({**head, "payload": payload}) + b"\n"


def digests_of(records: Sequence[Sealed]) -> list[str]:
    """Digests of the texts these records keep in blobs."""
    decoded = (r.decode(s.kind, s.body) for s in records if s.body is not None)
    return [t.blob for record in decoded for t in texts_of(record) if isinstance(t, BlobRef)]


class AuditLog:
    """A Log that also writes the audit file. All other verbs are the inner log's."""

    def __init__(self, inner: Log, path: Path) -> None:
        self._inner, self._path = inner, path
        self._taps: dict[Stream, Tap] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def append(self, stream: Stream, records: Sequence[Sealed], fence: int, blobs: Mapping[str, bytes]) -> int:
        signal_no = await self._inner.append(stream, records, fence, blobs)
        await self._tell(stream, records, blobs)
        return signal_no

    def check(self) -> None:
        """Before anything happens: raises ProblemError(validation) for a target that cannot be, or is something else's file."""
        try:
            self._path.parent.stat()
            if self._path.is_file() or self._path.is_dir():
                audit_lines(self._path.read_bytes())
        except (OSError, ForeignFile) as error:
            raise problem("validation", f"--audit-to {self._path}: {error}", operation="run", stage="arguments") from error

    async def catch_up(self, stream: Stream) -> None:
        """Tell the file what it lacks of a run that has ended: nothing more will be appended that could bring it along."""
        if stream not in self._taps:
            await self._tell(stream, (), {})

    async def _tell(self, stream: Stream, records: Sequence[Sealed], blobs: Mapping[str, bytes]) -> None:
        try:
            tap = self._taps.get(stream)
            if tap is None:
                tap = self._taps[stream] = Tap(stream, self._last_seq(stream))
                records = (await self._inner.load(stream)).records
                blobs = await self._inner.blobs(stream, digests_of(records))
            self._write(tap.lines(records, blobs))
        except (OSError, ForeignFile) as error:
            raise StoreError(f"the audit file {self._path} cannot be written: {error}") from error

    def _last_seq(self, stream: Stream) -> int:
        """The last record of this stream that the file holds; a torn last line does not count and is cut."""
        if not self._path.is_file():
            return -1
        with _locked(self._path, os.O_RDWR):
            lines, whole = audit_lines(self._path.read_bytes())
            os.truncate(self._path, whole)
        return max((x["seq"] for x in lines if (x["tenant"], x["run"]) == (stream.scope, stream.run)), default=-1)

    def _write(self, data: bytes) -> None:
        """Append and sync. Opened anew each time: a file that was moved away or cannot be written shows at once."""
        with _locked(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) as fd:
            while data:
                data = data[os.write(fd, data) :]
            if stat.S_ISREG(os.fstat(fd).st_mode):
                os.fsync(fd)


@contextmanager
def _locked(path: Path, flags: int) -> Generator[int]:
    """An open file nobody else writes to meanwhile. A pipe without a reader, or one that is full, is an error and no wait."""
    fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)


def audit_lines(data: bytes) -> tuple[list[dict[str, Any]], int]:
    """The whole lines of an audit file, and the bytes they fill; a last line may be torn. Raises ForeignFile for any other text."""
    whole = data.rfind(b"\n") + 1
    torn = data[whole:]
    try:
        lines: list[dict[str, Any]] = [json.loads(line) for line in data[:whole].splitlines()]
        ours = all(isinstance(x["seq"], int) and x["type"] in TYPE_BY_KIND.values() and x["tenant"] and x["run"] for x in lines)
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise ForeignFile from error
    if not ours or not (torn.startswith(BEGINS) or BEGINS.startswith(torn)):
        raise ForeignFile
    return lines, whole
