"""The seams: what the kernel asks of the world, in as few verbs as it can.

Model call, decision interpretation, action execution, log, event sink, clock. *Not* seams: context assembly, tool
registry (a plain object with a protocol), retry, workspace (R65, R68, R71).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from .objects import Json, ToolSpec
from .records import Completion, Evidence, Part, Sealed, ToolCall, Usage

# --- decision interpretation -------------------------------------------------------------------------------------


class Act(Struct, frozen=True):
    """Run a tool. `raw_output`: None = the reply as it is; (a, b) = that span of it; text = repaired text.

    `plain` is true when `args` can be read back from the reply by a strict parse (nothing was repaired).
    """

    tool: str
    args: dict[str, Json]
    raw_output: tuple[int, int] | str | None = None
    repairs: tuple[str, ...] = ()
    plain: bool = True


class Finish(Struct, frozen=True):
    """The reply itself is the final answer (native protocol only)."""

    text: str
    raw_output: tuple[int, int] | str | None = None
    repairs: tuple[str, ...] = ()


class Reject(Struct, frozen=True):
    """Nothing to run. `code` is one of interface.md's closed list; `message` is short and for the model.

    `tool` names the tool when it could be told, `subject` is what the stall signature is made of.
    """

    code: str
    message: str
    tool: str = ""
    subject: str = ""
    raw_output: tuple[int, int] | str | None = None
    repairs: tuple[str, ...] = ()


Decided = Act | Finish | Reject


class Tools(Protocol):
    """One run's narrow registry. The same object gives what the model sees, what exists and what is checked (R6)."""

    @property
    def specs(self) -> Mapping[str, ToolSpec]: ...

    def problems(self, tool: str, args: Json) -> Sequence[dict[str, Json]]:
        """All problems of `args` under the tool's schema, each `{path, issue}`; empty = valid. No type coercion."""
        ...


class Reply(Struct, frozen=True):
    """What a model source returns. `text` is the model's own text, byte for byte."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    items: tuple[Json, ...] = ()
    finish_reason: str = "stop"
    usage: Usage | None = None
    served_by: str = ""
    cached: bool = False
    attempts: int = 1


class Interpreter(Protocol):
    """Pure and synchronous: reply -> one decision per call. Same reply and tools, same decisions. Never raises."""

    name: str

    def interpret(self, reply: Reply, tools: Tools) -> tuple[Decided, ...]: ...


# --- model call --------------------------------------------------------------------------------------------------


class Message(Struct, frozen=True):
    """One message for a model. `tool_calls` on an assistant message, `call_id` on a tool result (native protocol)."""

    role: str
    parts: tuple[Part, ...]
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: str = ""

    @property
    def text(self) -> str:
        return "".join(p.text for p in self.parts if p.type == "text" and isinstance(p.text, str))


class ModelRequest(Struct, frozen=True):
    """What the model seam gets. `messages` is an immutable view, never a copy; texts are loaded when looked at.

    `reply_no` counts from 1: the number this reply will have in the run. `tools` is None under json-text/1 (R21).
    """

    call_id: str
    messages: Sequence[Message]
    params: Mapping[str, Json]
    binding: Mapping[str, str]
    reply_no: int
    tools: Sequence[ToolSpec] | None = None


class ModelCallFailed(Exception):
    """No reply. `sent` false = nothing left the process, no budget is used (R29). `key` names a refused binding key."""

    def __init__(self, code: str, *, sent: bool = True, key: str = "", message: str = "") -> None:
        super().__init__(message or code)
        self.code, self.sent, self.key, self.message = code, sent, key, message


class Model(Protocol):
    async def call(self, request: ModelRequest) -> Reply:
        """Called exactly once per intent; the kernel never repeats a failed call (R69). Raises ModelCallFailed."""
        ...


# --- action execution --------------------------------------------------------------------------------------------


class Action(Struct, frozen=True):
    """One call of a tool. `key` = digest(scope, run, seq, call): the idempotency key of the intent."""

    tool: str
    args: dict[str, Json]
    key: str
    call: int
    run_id: str
    scope: str
    #: How an earlier deferral was resolved, when this is the dispatch of an approved action.
    approved: bool = False
    token: str = ""
    attempt: int = 1


class Outcome(Struct, frozen=True):
    """How it went. `error` = it did not do what was asked and says why; `unknown` = it may have; `not_executed` = refused."""

    status: Literal["ok", "error", "unknown", "not_executed"]
    observation: tuple[Part, ...] = ()
    completion: Completion = "NOT_DONE"
    evidence: tuple[Evidence, ...] = ()
    code: str = ""
    result: Json = None


class Deferred(Struct, frozen=True):
    """The action waits: for an approval, an answer, a task, a sub-run. `until` = epoch ms, 0 = none."""

    token: str
    awaited: Literal["approval", "answer", "task", "settle", "run"]
    until: int = 0
    dispatched: bool = False
    prompt: Json = None


class NotStarted(Struct, frozen=True):
    """Proved (and fenced, if asked) that the action never began: the seed's `retryable`."""


class Pending(Struct, frozen=True):
    token: str
    until: int = 0
    awaited: Literal["task", "run", "settle"] = "task"


class Unknown(Struct, frozen=True):
    """The service cannot tell."""


Settled = Outcome | NotStarted | Pending | Unknown


class Actions(Protocol):
    """Executes. `promises_completion`: True = UNAVAILABLE is a fault of the environment (tier F); False = none by nature (tier G)."""

    promises_completion: bool

    async def execute(self, action: Action) -> Outcome | Deferred:
        """Dispatch once. Tool faults are outcomes; an exception that escapes is an environment fault."""
        ...

    async def settle(self, action: Action, token: str | None, fence: bool = False) -> Settled:
        """Ask what became of `action.key`. Never dispatches. `fence` = and make sure a late arrival cannot begin."""
        ...


# --- log and control ---------------------------------------------------------------------------------------------


class Stream(Struct, frozen=True):
    """Which log. `scope` (the tenant, opaque here) is part of every key; a stream of another scope does not exist."""

    scope: str
    run: str


class Signal(Struct, frozen=True):
    """A message left for the holder by an outsider, who never appends to the log. `no` counts from 1 per stream."""

    no: int
    kind: Literal["cancel", "suspend", "resolve", "poll"]
    at: int
    by: str = ""
    token: str = ""
    decision: str = ""
    body: Json = None


class Holder(Struct, frozen=True):
    """A process that may hold runs. A dead `pid` (other start time or gone) on the same `boot` is taken over at once."""

    id: str
    host: str
    boot: str
    pid: int
    started: int
    #: Lease end, epoch ms; renewed by heartbeat.
    until: int
    #: Tool process groups it owns: (pgid, start time). A takeover kills them before any settle or rerun.
    groups: tuple[tuple[int, int], ...] = ()


class Taken(Struct, frozen=True):
    """Ownership. `epoch` fences every append; `signal_no` is the last signal there was; `kill` are the old holder's groups."""

    epoch: int
    signal_no: int
    kill: tuple[tuple[int, int], ...] = ()
    previous: str = ""


class Head(Struct, frozen=True):
    """The end of a stream: next seq, last hash (64 zeros when empty), kind and body of the last record."""

    seq: int
    hash: str
    kind: str = ""
    holder: str = ""
    live: bool = False
    created: int = 0
    updated: int = 0


class Damage(Struct, frozen=True):
    """A last frame that cannot be read, and what its row still tells."""

    first_seq: int
    reason: str
    lost_hash: str = ""


class Loaded(Struct, frozen=True):
    """A stream read back, verified frame by frame. `torn` tells of a bad last frame (cut by `Log.repair`)."""

    records: tuple[Sealed, ...]
    torn: Damage | None = None


class StoreError(Exception):
    """The log could not do it; nothing was written. The run stops, resumable."""


class StoreUnknown(StoreError):
    """A COMMIT failed without proof of rollback: it may be there. Resolved by reading, never by resending blindly."""


class StaleFence(StoreError):
    """Another holder took the run; this one may not write any more."""


class Conflict(StoreError):
    """The stream does not end where the writer believes (another record stands at that seq)."""


class OwnedElsewhere(StoreError):
    """A live holder has the run. `holder` names it."""

    def __init__(self, holder: str, until: int = 0) -> None:
        super().__init__(f"the run is held by {holder}")
        self.holder, self.until = holder, until


class CorruptStore(StoreError):
    """The store is damaged where no repair is allowed. `seq` = first record that cannot be trusted, -1 = not known."""

    def __init__(self, message: str, seq: int = -1) -> None:
        super().__init__(message)
        self.seq = seq


class NewerSchema(StoreError):
    """The store was written by a later version; it is refused, unchanged."""


class Log(Protocol):
    """Hash-chained streams of records with one holder each, and the control rows beside them.

    Every verb is atomic and durable when it returns. Conformance: `polyloop.testing.conformance.log`.
    """

    async def append(self, stream: Stream, records: Sequence[Sealed], fence: int, blobs: Mapping[str, bytes]) -> int:
        """Append one batch (contiguous seqs, chained hashes) as one frame; returns the stream's last signal number.

        Idempotent by (stream, first seq, last hash). Raises StaleFence when `fence` is not the stream's epoch,
        Conflict when the stream ends elsewhere, StoreUnknown when the commit's fate is not known, StoreError else.
        fence 0 with first seq 0 creates the stream; only `take` raises the epoch above 0.
        """
        ...

    async def load(self, stream: Stream) -> Loaded:
        """All records, each hash recomputed. Raises CorruptStore naming seq for damage before the last frame, NewerSchema."""
        ...

    async def repair(self, stream: Stream, damage: Damage, fence: int) -> None:
        """Let this holder's next append take the damaged last frame's place: the cut and the notice of it are one transaction."""
        ...

    async def blobs(self, stream: Stream, digests: Sequence[str]) -> dict[str, bytes]:
        """The blobs asked for; missing (erased) ones are left out. Raises CorruptStore when bytes do not match their digest."""
        ...

    async def head(self, stream: Stream) -> Head | None:
        """Where the stream ends, None if it does not exist."""
        ...

    async def streams(self, scope: str, after: str = "", limit: int = 50) -> list[tuple[Stream, Head]]:
        """Streams of a scope, newest first, after the cursor of the previous page (a stream's `run`)."""
        ...

    async def take(self, stream: Stream, holder: Holder) -> Taken:
        """Become the holder and raise the epoch. Creates the control row for a new stream. Raises OwnedElsewhere."""
        ...

    async def release(self, stream: Stream, epoch: int, signal_seen: int, next_poll: int = 0) -> bool:
        """Let go, unless a signal after `signal_seen` has come (then False: no lost wake-up) or the epoch is stale (True)."""
        ...

    async def signal(self, stream: Stream, signal: Signal) -> int:
        """Leave a signal (its `no` is given by the store); returns the number. Raises KeyError for an unknown stream."""
        ...

    async def signals(self, stream: Stream, after: int) -> list[Signal]: ...

    async def moved(self, since: Mapping[Stream, int]) -> list[Stream]:
        """Those streams whose last signal number is above the given one: the watcher's one cheap question."""
        ...

    async def heartbeat(self, holder: Holder) -> None:
        """Write the holder row (lease end, process groups)."""
        ...

    async def delete(self, stream: Stream) -> None:
        """Remove a stream with its frames, blobs and signals (retention, erase)."""
        ...

    async def close(self) -> None: ...


class Clock(Protocol):
    def now_ms(self) -> int:
        """Store time, epoch milliseconds."""
        ...

    def monotonic(self) -> float:
        """Seconds, for durations only."""
        ...


class Event(Struct, frozen=True):
    """A lossy notice for people and progress bars, never the audit (S2.28). `body` holds the whole step record, no raw reply."""

    type: Literal["run_started", "step", "waiting", "resumed", "run_ended"]
    run_id: str
    scope: str
    seq: int
    body: dict[str, Json]
    #: Events dropped before this one for this sink.
    dropped: int = 0


Sink = Callable[[Event], Any]  # a plain function or one that returns an awaitable
Entropy = Callable[[], str]  # 32 fresh hex characters
