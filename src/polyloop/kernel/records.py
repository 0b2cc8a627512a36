"""What a run *is*: an ordered chain of records, and nothing else.

Theory of operation. A record says that one thing happened. Records are sealed one after another into a hash chain:

    body        canonical JSON text: keys sorted, no blanks, UTF-8
    body_digest sha256(salt + body)                                    (salt: 32 hex characters)
    hash        sha256(prev \\n seq \\n kind \\n at \\n fence \\n body_digest)   (all hex or decimal text)

so a body can be erased (with its salt) while the chain still verifies. Long texts leave the body: it holds a
`BlobRef`, the text itself is stored once under its digest. Defaults are not written: they are part of schema 1.
A lone surrogate, which UTF-8 cannot carry, is written as its JSON escape (`\\ud800`) in bodies and by
`surrogatepass` in blobs; both read back to the same string. Nothing here knows time, storage or asyncio.

Seed: S2.27, S2.28 (the log alone is the audit), R38-R52.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Final, Literal, cast

import msgspec
from msgspec import Struct

from .objects import Budget, Counters, DefinitionSnapshot, Json, Origin, ToolSnapshot

SCHEMA: Final = 1
ZERO_HASH: Final = "0" * 64
#: Texts of this many UTF-8 bytes or more are stored as blobs. Part of the record format.
INLINE_BYTES: Final = 1024


class BlobRef(Struct, frozen=True):
    """A text kept outside the body: sha256 hex of its UTF-8 bytes, and their number."""

    blob: str
    size: int


Text = str | BlobRef
Decision = Literal["approved", "denied", "answered", "finished", "expired", "withdrawn"]
Awaited = Literal["approval", "answer", "task", "settle", "run"]
Status = Literal["ok", "error", "unknown", "not_executed"]
Completion = Literal["DONE", "NOT_DONE", "UNAVAILABLE"]


class Part(Struct, frozen=True, omit_defaults=True):
    """One part of an observation or a segment. `text` for text; `blob` and `mime` for images and files."""

    type: Literal["text", "image", "file"] = "text"
    text: Text = ""
    blob: str = ""
    mime: str = ""
    #: Set when the text was cut: bytes and sha256 of the whole.
    full_size: int = 0
    full_sha256: str = ""


class Evidence(Struct, frozen=True, omit_defaults=True):
    """Something a claim may cite: a receipt, ticket, list or run. `settled` is false while its outcome is open.

    `iterations`, `valid_steps`, `working_ms`: what a sub-run has used; they count against the budget of the run that began it, the time
    where the action has no time of its own.
    """

    ref: str
    type: str
    status: str = ""
    settled: bool = True
    complete: bool | None = None
    iterations: int = 0
    valid_steps: int = 0
    working_ms: float = 0.0


class ToolCall(Struct, frozen=True, omit_defaults=True):
    """A provider's native tool call; `arguments` is its JSON text, untouched."""

    id: str
    name: str
    arguments: Text


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens as the source reported them; null = not told."""

    input: int | None = None
    output: int | None = None


class CallError(Struct, frozen=True, omit_defaults=True):
    """Why a model call gave no reply. `sent` false = it never left: no budget is used (R29)."""

    code: str
    sent: bool = True
    key: str = ""
    message: str = ""


class Rejection(Struct, frozen=True, omit_defaults=True):
    """Why a decision was not executed, as told to the model. `signature` feeds the stall guard."""

    code: str
    message: str
    signature: str


class Timings(Struct, frozen=True, omit_defaults=True):
    """Milliseconds by the monotonic clock. `action` is the executor alone; null = no tool ran (S2.51)."""

    assemble: float = 0.0
    model: float = 0.0
    interpret: float = 0.0
    action: float | None = None
    store: float = 0.0
    total: float = 0.0


class SegmentRecord(Struct, frozen=True, omit_defaults=True):
    """A segment as it stood at the start; `sha256` is over its canonical parts."""

    name: str
    role: str
    sha256: str
    parts: tuple[Part, ...] = ()
    slot: str = ""


class RunStarted(Struct, frozen=True, omit_defaults=True):
    """The parameter snapshot: the one place that answers which settings this run used (R4)."""

    definition: DefinitionSnapshot
    protocol: int
    budget: Budget
    schema: int = SCHEMA
    tools: tuple[ToolSnapshot, ...] = ()
    binding: dict[str, str] = {}
    params: dict[str, Json] = {}
    assembly: dict[str, str] = {}
    segments: tuple[SegmentRecord, ...] = ()
    overflow: str = "none"
    result_schema: Json = None
    root: str = ""
    parent: str = ""
    origin: Origin | None = None
    history: Text = ""


class ModelIntent(Struct, frozen=True, omit_defaults=True):
    """The model is about to be called. `digest` is the rolling digest of everything it will see."""

    iteration: int
    call_id: str
    digest: str
    purpose: str = "step"
    messages: int = 0


class ModelResult(Struct, frozen=True, omit_defaults=True):
    """The reply as it came, byte for byte (R39), or why there is none."""

    text: Text = ""
    reasoning: Text = ""
    tool_calls: tuple[ToolCall, ...] = ()
    items: tuple[Json, ...] = ()
    finish_reason: str = ""
    usage: Usage | None = None
    served_by: str = ""
    cached: bool = False
    attempts: int = 1
    ms: float = 0.0
    error: CallError | None = None


class ActionIntent(Struct, frozen=True, omit_defaults=True):
    """A tool is about to be run. `args` null = exactly as in the reply (nothing was repaired, and they are long)."""

    call: int
    tool: str
    effect: str
    replay: str
    key: str
    args: Json = None
    #: Canonical JSON of long repaired arguments.
    args_text: Text = ""


class ActionResult(Struct, frozen=True, omit_defaults=True):
    """How an action ended. `unknown` = it may have happened: read back before repeating it (S0.9)."""

    call: int
    status: Status
    observation: tuple[Part, ...] = ()
    completion: Completion = "NOT_DONE"
    ms: float | None = None
    evidence: tuple[Evidence, ...] = ()
    code: str = ""
    interrupted: bool = False
    leaked: bool = False


class ActionDeferred(Struct, frozen=True, omit_defaults=True):
    """The action waits for something outside. `until` = epoch ms, 0 = no deadline. `dispatched` = it has been sent."""

    call: int
    token: str
    awaited: Awaited
    until: int = 0
    dispatched: bool = False
    prompt: Json = None


class ActionResolved(Struct, frozen=True, omit_defaults=True):
    """The wait is over. Durable *before* an approved effect is dispatched. `of` = the call index.

    `signal` = the last signal heeded by then: what was said about this token up to it is spent.
    """

    of: int
    token: str
    decision: Decision
    by: str = ""
    evidence: Json = None
    signal: int = 0


class Step(Struct, frozen=True, omit_defaults=True):
    """One decision settled. `raw_output` null = as the reply; a pair = that span of the reply; else the repaired text (R40)."""

    call: int
    calls: int
    tier: str
    valid: bool
    iteration: int
    outcome: str
    counters: Counters
    timings: Timings
    tool: str = ""
    raw_output: tuple[int, int] | Text | None = None
    repairs: tuple[str, ...] = ()
    rejection: Rejection | None = None
    repeated: bool = False


class ResumeStarted(Struct, frozen=True, omit_defaults=True):
    """A holder took the run over; always the first record of its first batch."""

    attempt: int
    holder: str
    head: int


class ResumeRefused(Struct, frozen=True, omit_defaults=True):
    """A resume with other parameters was refused; `fields` name path, logged and offered value."""

    fields: tuple[dict[str, Json], ...]


class Replay(Struct, frozen=True, omit_defaults=True):
    """An open intent is being recovered. `of` = seq of the intent; durable before anything is dispatched (R62)."""

    of: int
    policy: str
    decision: Literal["recall", "rerun", "probe", "execute", "report_unknown", "ask", "never"]
    attempt: int
    by: str = ""


class DriftAccepted(Struct, frozen=True, omit_defaults=True):
    """A person accepted the named differences; `fields` as in `ResumeRefused`."""

    fields: tuple[dict[str, Json], ...]
    by: str = ""


class TailRepaired(Struct, frozen=True, omit_defaults=True):
    """A damaged last frame was cut. `lost_hash` is what its row claimed; an action it may have held counts as open."""

    first_seq: int
    reason: str
    lost_hash: str = ""


class CancelRequested(Struct, frozen=True, omit_defaults=True):
    """A person or owner asked for the end."""

    by: str = ""
    reason: str = ""


class RunEnded(Struct, frozen=True, omit_defaults=True):
    """Written by the library itself, once; nothing follows it (R51). `result_of` = seq of the record holding the result."""

    reason: str
    counters: Counters
    detail: str = ""
    completed_by: str = ""
    result_of: int | None = None
    result: Json = None
    error: Json = None


Record = (
    RunStarted | ModelIntent | ModelResult | ActionIntent | ActionResult | ActionDeferred | ActionResolved | Step | ResumeStarted
    | ResumeRefused | Replay | DriftAccepted | TailRepaired | CancelRequested | RunEnded
)  # fmt: skip

KINDS: Final[dict[str, type[Record]]] = {
    "run_started": RunStarted, "model_intent": ModelIntent, "model_result": ModelResult, "action_intent": ActionIntent,
    "action_result": ActionResult, "action_deferred": ActionDeferred, "action_resolved": ActionResolved, "step": Step,
    "resume_started": ResumeStarted, "resume_refused": ResumeRefused, "replay": Replay, "drift_accepted": DriftAccepted,
    "tail_repaired": TailRepaired, "cancel_requested": CancelRequested, "run_ended": RunEnded,
}  # fmt: skip
KIND_OF: Final[dict[type, str]] = {t: k for k, t in KINDS.items()}


class Sealed(Struct, frozen=True):
    """A record as it is stored: header, salt, canonical body, hash (hex texts). `body` null = erased."""

    seq: int
    kind: str
    at: int
    fence: int
    salt: str
    body: bytes | None
    body_digest: str
    prev: str
    hash: str


class UnknownKind(ValueError):
    """The log holds a record kind of a newer schema; it is refused, never skipped."""


_encode = msgspec.json.Encoder(order="sorted").encode
_decoders: Final[dict[str, msgspec.json.Decoder[Record]]] = {}
_LONE = re.compile("[\ud800-\udfff]")


def canonical(value: object) -> bytes:
    """Canonical JSON bytes of plain data or a record: sorted keys, no blanks, UTF-8, lone surrogates as escapes."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value, order="sorted")
        text = json.dumps(plain, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return _LONE.sub(lambda m: f"\\u{ord(m[0]):04x}", text).encode()


def plain(body: bytes) -> Json:
    """Read canonical JSON back to plain data, numbers and lone surrogates exact."""
    return cast(Json, json.loads(body))


def decode(kind: str, body: bytes) -> Record:
    """Read a stored body. Raises UnknownKind, or ValueError naming what is wrong with it."""
    decoder = _decoders.get(kind)
    if decoder is None:
        if kind not in KINDS:
            raise UnknownKind(kind)
        decoder = _decoders[kind] = msgspec.json.Decoder(KINDS[kind])
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.convert(json.loads(body), KINDS[kind])


def seal(prev: str, seq: int, at: int, fence: int, salt: str, record: Record) -> Sealed:
    """Give a record its place in the chain."""
    body = canonical(record)
    kind = KIND_OF[type(record)]
    digest = digest_of(salt, body)
    return Sealed(seq, kind, at, fence, salt, body, digest, prev, chain_hash(prev, seq, kind, at, fence, digest))


def digest_of(salt: str, body: bytes) -> str:
    return hashlib.sha256(salt.encode() + body).hexdigest()


def chain_hash(prev: str, seq: int, kind: str, at: int, fence: int, body_digest: str) -> str:
    return hashlib.sha256(f"{prev}\n{seq}\n{kind}\n{at}\n{fence}\n{body_digest}".encode()).hexdigest()


def text_bytes(text: str) -> bytes:
    """UTF-8 with lone surrogates kept; the form blobs are stored and hashed in."""
    return text.encode("utf-8", "surrogatepass")


def bytes_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
