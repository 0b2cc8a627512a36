"""The audit export: a wrapper around the log seam (S2.29, R43). What the log takes, the file takes; if it cannot, the run stops.

One JSON line per start, model step, tool call and end: `{"type": "model_step" | "tool_call" | ..., "tenant", "run", "seq", "at",
"payload"}`; a model step holds the raw reply beside the repaired text and the repairs' names, a tool call its arguments and outcome.
A file that is behind the log (a crash between the two) is caught up before the next line.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from polyloop.kernel import records as r
from polyloop.kernel.machine import texts_of
from polyloop.kernel.objects import Json
from polyloop.kernel.records import BlobRef, Sealed, Text, bytes_text, canonical
from polyloop.kernel.seams import Log, StoreError, Stream
from polyloop.kernel.view import Materialiser

TYPE_BY_KIND: Final = {"run_started": "run_started", "step": "model_step", "action_result": "tool_call", "run_ended": "run_ended"}


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
        try:
            tap = self._taps.get(stream)
            if tap is None:
                tap = self._taps[stream] = Tap(stream, self._last_seq(stream))
                records = (await self._inner.load(stream)).records
                blobs = await self._inner.blobs(stream, digests_of(records))
            self._write(tap.lines(records, blobs))
        except OSError as error:
            raise StoreError(f"the audit file {self._path} cannot be written: {error.strerror}") from error
        return signal_no

    def _last_seq(self, stream: Stream) -> int:
        """The last record of this stream that the file holds; a torn last line does not count and is cut."""
        if not self._path.is_file():
            return -1
        data = self._path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) != len(data):
            os.truncate(self._path, len(whole))
        lines: list[dict[str, Any]] = [json.loads(line) for line in whole.splitlines()]
        return max((x["seq"] for x in lines if (x["tenant"], x["run"]) == (stream.scope, stream.run)), default=-1)

    def _write(self, data: bytes) -> None:
        """Append and sync. Opened anew each time: a file that was moved away or cannot be written shows at once."""
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            while data:
                data = data[os.write(fd, data) :]
            if stat.S_ISREG(os.fstat(fd).st_mode):
                os.fsync(fd)
        finally:
            os.close(fd)
