"""What a caller hands to the kernel, and what it gets back. Plain values; budgets live on the request only (R3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Union

from msgspec import Struct, field

#: Plain JSON data. Only this is ever stored. (The codec knows no recursive types: at run time it is Any.)
if TYPE_CHECKING:
    Json: TypeAlias = Union[None, bool, int, float, str, list["Json"], dict[str, "Json"]]
else:
    Json = Any

Effect = Literal["read", "write", "pay"]
Replay = Literal["rerun", "probe", "report_unknown", "ask", "never"]
Kind = Literal["async", "process", "thread"]


class Budget(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of one run. Counts only what the kernel observes; 0 switches a guard off (S2.33, S2.36)."""

    max_valid_steps: int
    max_iterations: int
    max_identical_rejections: int = 3
    max_consecutive_rejections: int = 0
    max_recoveries: int = 3
    max_tool_calls_per_iteration: int = 16
    wall_clock_s: float = 0
    working_time_s: float = 0


class Counters(Struct, frozen=True):
    """The two counters of S2.17 and the guards' ones. `iterations` = model calls sent or maybe sent."""

    iterations: int = 0
    valid_steps: int = 0
    rejections_total: int = 0
    rejections_consecutive: int = 0
    identical_streak: int = 0


class DefinitionSnapshot(Struct, frozen=True):
    """Which agent, which protocol."""

    id: str
    version: str
    interpreter: str


class ToolSnapshot(Struct, frozen=True, omit_defaults=True):
    """A tool as the run knew it: digests of what the model saw, and the rules it ran under."""

    name: str
    description: str
    schema: str
    effect: Effect
    replay: Replay
    kind: Kind
    completes: bool = False
    timeout_s: float = 0.0  # as the codec reads it back: 0 and 0.0 are different texts
    result_limit: int = 0
    pollable: bool = False
    max_argument_failures: int = 0
    defers: bool = False
    retry: bool = False
    interruptible: bool = True
    ref: str = ""


class Origin(Struct, frozen=True):
    """Where a fork came from."""

    run: str
    seq: int
    head_hash: str


class ToolSpec(Struct, frozen=True):
    """One tool. `schema` is the closed JSON Schema of its arguments; it is what the model sees *and* what is checked (R6).

    `replay` says what to do with an intent whose outcome was lost (S2.28); `timeout_s` and `result_limit` (bytes of
    observation kept) are per call; 0 timeout = none. `ref` = "module:function", to find it again on resume.
    """

    name: str
    description: str
    schema: dict[str, Json]
    effect: Effect = "write"
    replay: Replay = "report_unknown"
    kind: Kind = "process"
    completes: bool = False
    timeout_s: float = 0
    result_limit: int = 65536
    pollable: bool = False
    max_argument_failures: int = 0
    defers: bool = False
    retry: bool = False
    interruptible: bool = True
    ref: str = ""

    @property
    def parameters(self) -> frozenset[str]:
        """Names the schema declares."""
        declared = self.schema.get("properties")
        return frozenset(declared) if isinstance(declared, dict) else frozenset()


class Agent(Struct, frozen=True, forbid_unknown_fields=True):
    """A definition: who decides, by which protocol. No budget, no binding, no content (R2)."""

    id: str
    version: str = "1"
    protocol: str = "json-text/1"


class Segment(Struct, frozen=True, forbid_unknown_fields=True):
    """Finished text for the model, in order (S2.34). `slot` marks where history, tools or notices go; then `text` is empty."""

    name: str
    role: str = "user"
    text: str = ""
    slot: Literal["", "history", "tools", "notice"] = ""


class Request(Struct, frozen=True):
    """Everything one run is started with. `scope` is opaque to the kernel and part of every key."""

    run_id: str
    agent: Agent
    budget: Budget
    segments: tuple[Segment, ...] = ()
    binding: dict[str, str] = field(default_factory=dict[str, str])
    params: dict[str, Json] = field(default_factory=dict[str, Json])
    assembly: dict[str, str] = field(default_factory=dict[str, str])
    scope: str = "local"
    overflow: str = "none"
    result_schema: Json = None
    parent: str = ""
    root: str = ""
    origin: Origin | None = None
    history: str = ""


class Waiting(Struct, frozen=True):
    """What a waiting run waits for. `until` = epoch ms, 0 = no deadline."""

    kind: str
    token: str
    until: int = 0


class RunResult(Struct, frozen=True):
    """What became of a run. `persisted` false = the log could not take the last records: never read it as completed."""

    run_id: str
    scope: str
    state: Literal["running", "waiting", "interrupted", "ended"]
    counters: Counters
    reason: str = ""
    detail: str = ""
    completed_by: str = ""
    result: Json = None
    waiting: Waiting | None = None
    error: Json = None
    persisted: bool = True
    last_seq: int = -1
    head_hash: str = "0" * 64

    @property
    def ended(self) -> bool:
        return self.state == "ended"
