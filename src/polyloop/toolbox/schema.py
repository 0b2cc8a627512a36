"""From annotations to a closed JSON Schema, and from checked arguments to a call. Nothing is coerced.

Supported: str, int, float, bool, None, list, dict with str keys, Literal, Optional and unions, TypedDict, dataclasses,
msgspec Structs, Any, and Annotated with a text (its description). A default makes a parameter optional (S2.13).
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from ..contract.problem import ProblemError, problem
from ..contract.schema import whole
from ..kernel.objects import Json
from ..kernel.snapshot import is_json
from .context import ToolContext

Schema = dict[str, Json]
NONE: Final[Any] = inspect.Parameter.empty

_PLAIN: Final[dict[Any, Schema]] = {
    Any: {}, str: {"type": "string"}, int: {"type": "integer"}, float: {"type": "number"}, bool: {"type": "boolean"},
    None: {"type": "null"}, type(None): {"type": "null"}, list: {"type": "array"}, dict: {"type": "object"},
}  # fmt: skip
_QUALIFIED: Final[dict[Any, bool]] = {typing.Required: True, typing.NotRequired: False}
_TAKES_ONE: Final = "give it by name: *args, **kwargs and positional-only parameters have no place in JSON"


class Parameter(Struct, frozen=True):
    """One parameter the model fills in. `default` is `NONE` when it is required."""

    name: str
    annotation: Any
    default: Any = NONE


class Signature(Struct, frozen=True):
    """A function's parameters; `context` = the name of the one annotated ToolContext, "" if there is none."""

    parameters: tuple[Parameter, ...]
    context: str = ""


class _NotSupported(Exception):
    """An annotation, or a part of one, that has no schema; the text says why."""


@lru_cache(maxsize=1024)
def signature_of(function: Callable[..., Any]) -> Signature:
    """Raises ProblemError (validation) naming the tool and the parameter that has no usable annotation."""
    parameters: list[Parameter] = []
    context = ""
    for p in inspect.signature(function).parameters.values():
        if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise _wrong(function.__name__, p.name, _TAKES_ONE)
        annotation = _resolved(function, p)
        if annotation is ToolContext:
            context = p.name
        else:
            parameters.append(Parameter(p.name, annotation, p.default))
    return Signature(tuple(parameters), context)


def schema_of(tool: str, signature: Signature) -> Schema:
    """The closed schema of the parameters. Raises as `signature_of`."""
    properties: dict[str, Json] = {}
    for p in signature.parameters:
        try:
            schema = _schema(p.annotation, ())
            msgspec.json.Decoder(p.annotation)  # what the codec cannot tell apart cannot be handed to the function
        except (_NotSupported, TypeError) as why:
            raise _wrong(tool, p.name, str(why)) from None
        properties[p.name] = {**schema, "default": p.default} if p.default is not NONE and is_json(p.default) else schema
    return _closed(properties, [p.name for p in signature.parameters if p.default is NONE])


def arguments(signature: Signature, args: Mapping[str, Json], context: ToolContext) -> dict[str, Any]:
    """Keyword arguments for a call with checked `args`: dataclasses and Structs are built, all else stays as it is.

    Raises ProblemError (validation) for what a schema cannot say, e.g. a check in a dataclass's __post_init__.
    """
    out: dict[str, Any] = {}
    for p in signature.parameters:
        if p.name in args:
            out[p.name] = _built(p, args[p.name])
    if signature.context:
        out[signature.context] = context
    return out


def _built(p: Parameter, value: Json) -> Any:
    try:
        return msgspec.convert(value, p.annotation)
    except msgspec.ValidationError:
        try:  # 1.0 is the integer 1 in JSON, but not in Python
            return msgspec.convert(whole(value), p.annotation)
        except msgspec.ValidationError as why:
            raise problem("validation", f"argument {p.name}: {why}", details={"problems": [{"path": p.name, "issue": str(why)}]}) from why


def _resolved(function: Callable[..., Any], p: inspect.Parameter) -> Any:
    if p.annotation is NONE:
        raise _wrong(function.__name__, p.name, "it has no annotation")
    try:
        holder: Any = types.SimpleNamespace(__annotations__={p.name: p.annotation})
        return typing.get_type_hints(holder, getattr(function, "__globals__", {}), include_extras=True)[p.name]
    except Exception as why:
        raise _wrong(function.__name__, p.name, f"its annotation {p.annotation!r} cannot be resolved ({why})") from why


def _wrong(tool: str, parameter: str, why: str) -> ProblemError:
    return problem("validation", f"tool {tool}: parameter {parameter}: {why}", details={"tool": tool, "parameter": parameter})


def _closed(properties: dict[str, Json], required: list[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": cast(Json, required), "additionalProperties": False}


def _schema(annotation: Any, inside: tuple[Any, ...]) -> Schema:
    if isinstance(annotation, typing.Hashable) and annotation in _PLAIN:
        return dict(_PLAIN[annotation])
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in _GENERIC:
        return _GENERIC[origin](parts, inside)
    if any(annotation is outer for outer in inside):
        raise _NotSupported(f"{_name(annotation)} contains itself")
    fields = _fields(annotation)
    if fields is None:
        raise _NotSupported(f"{_name(annotation)} is not supported; use plain types, Literal, unions, TypedDict, a dataclass or a Struct")
    return _closed({n: _schema(a, (*inside, annotation)) for n, (a, _) in fields.items()}, [n for n, (_, needed) in fields.items() if needed])


def _fields(annotation: Any) -> dict[str, tuple[Any, bool]] | None:
    """Field name -> (annotation, required) of an object type; None for anything else."""
    if typing.is_typeddict(annotation):
        hints = typing.get_type_hints(annotation, include_extras=True)  # text annotations hide NotRequired from the class itself
        return {n: (a, _QUALIFIED.get(typing.get_origin(a), n in annotation.__required_keys__)) for n, a in hints.items()}
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        hints = typing.get_type_hints(annotation, include_extras=True)
        missing = dataclasses.MISSING
        return {f.name: (hints[f.name], f.default is missing and f.default_factory is missing) for f in dataclasses.fields(annotation) if f.init}
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        if annotation.__struct_config__.tag is not None or annotation.__struct_config__.array_like:
            raise _NotSupported(f"{_name(annotation)}: tagged and array-like Structs are not supported")
        return {f.encode_name: (f.type, f.required) for f in msgspec.structs.fields(annotation)}
    return None


def _list(parts: tuple[Any, ...], inside: tuple[Any, ...]) -> Schema:
    return {"type": "array", "items": _schema(parts[0], inside)}


def _dict(parts: tuple[Any, ...], inside: tuple[Any, ...]) -> Schema:
    if parts[0] is not str:
        raise _NotSupported("the keys of a dict must be str")
    return {"type": "object", "additionalProperties": _schema(parts[1], inside)}


def _literal(parts: tuple[Any, ...], inside: tuple[Any, ...]) -> Schema:
    if not all(isinstance(v, str | int | None) for v in parts):
        raise _NotSupported("a Literal holds texts, whole numbers, True, False or None")
    return {"enum": list(parts)}


def _union(parts: tuple[Any, ...], inside: tuple[Any, ...]) -> Schema:
    return {"anyOf": [_schema(p, inside) for p in parts]}


def _annotated(parts: tuple[Any, ...], inside: tuple[Any, ...]) -> Schema:
    texts = [p for p in parts[1:] if isinstance(p, str)]
    return {**_schema(parts[0], inside), **({"description": texts[0]} if texts else {})}


def _inner(parts: tuple[Any, ...], inside: tuple[Any, ...]) -> Schema:
    return _schema(parts[0], inside)


_GENERIC: Final[dict[Any, Callable[[tuple[Any, ...], tuple[Any, ...]], Schema]]] = {
    list: _list, dict: _dict, typing.Literal: _literal, typing.Union: _union, types.UnionType: _union, typing.Annotated: _annotated,
    typing.Required: _inner, typing.NotRequired: _inner,
}  # fmt: skip


def _name(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else repr(annotation)
