"""The leaf schemas of media: fields and limits as the canvas seed gives them. Seed: S1.24-S1.28, S1.45, S1.46, S1.79, S1.83, S1.85."""

from __future__ import annotations

from typing import Any, Final

from ..contract.leaf import Operation, Step
from ..contract.schema import Shape, closed, not_both
from . import limits
from .catalog import MODES

CONTRACT: Final = "canvas.operation.v1"
READ: Final = "media.read.v1"

#: No outer blanks, no control characters.
_CONTROL: Final = r"\x00-\x1f\x7f-\x9f\u2028\u2029"
ID: Final[dict[str, Any]] = {"type": "string", "maxLength": 80, "pattern": rf"^[^\s{_CONTROL}]([^{_CONTROL}]*[^\s{_CONTROL}])?$"}
_LONG_ID: Final = {**ID, "maxLength": limits.LONG_ID}
#: A text that says something; not every store can keep a NUL.
_TEXT: Final = r"^[^\x00]*[^\s\x00][^\x00]*$"
_WHOLE: Final = r"^[^\x00]*$"
_TITLE: Final = {"type": "string", "maxLength": 240, "pattern": _TEXT}
_PROMPT: Final = {"type": "string", "maxLength": limits.PROMPT, "pattern": _TEXT}
_QUALITY: Final = {"type": "string", "maxLength": limits.QUALITY, "pattern": _WHOLE}
#: A file as large as a result may be, in base64.
_FILE_CHARS: Final = -(-limits.RESULT_BYTES // 3) * 4
_HASH: Final = {
    "type": "string",
    "maxLength": 200,
    "pattern": _WHOLE,
    "description": "the mediaSnapshotHash the wish is based on; refused if the canvas has changed",
}
_REFERENCES: Final = {
    "type": "array", "items": ID, "maxItems": limits.REFERENCES, "uniqueItems": True, "description": "media nodes that are given along; [] = none",
}  # fmt: skip
_TRANSIENTS: Final = {"type": "array", "items": _LONG_ID, "minItems": 1, "maxItems": limits.TRANSIENTS, "uniqueItems": True}
_SIZE: Final = {"type": "string", "pattern": r"^[1-9]\d{0,4}x[1-9]\d{0,4}$"}
_SELECTION: Final = {"logicalModelId": _LONG_ID, "channelId": _LONG_ID, "channelModelKey": _LONG_ID}
#: One way to name a model, whole, and only one (S1.28).
_ONE_MODEL: Final[dict[str, Any]] = {
    "oneOf": [{"required": ["logicalModelId"]}, {"required": ["channelId", "channelModelKey"]}],
    "allOf": [*not_both("logicalModelId", "channelId")["allOf"], *not_both("logicalModelId", "channelModelKey")["allOf"]],
}  # fmt: skip
#: Length belongs to what has one, sound to clips.
_BY_MODE: Final[list[Any]] = [
    {"if": {"properties": {"mode": {"const": "image"}}, "required": ["mode"]}, "then": {"properties": {"durationSeconds": False}}},
    {"if": {"properties": {"mode": {"const": "audio"}}, "required": ["mode"]}, "then": {"properties": {"size": False}}},
    {"if": {"properties": {"mode": {"not": {"const": "video"}}}, "required": ["mode"]}, "then": {"properties": {"videoGenerateAudio": False}}},
]  # fmt: skip

_QUEUED: Final = Shape({
    "type": "object", "required": ["taskId", "nodeId", "state", "snapshotHash"],
    "properties": {name: {"type": "string", "minLength": 1} for name in ("taskId", "nodeId", "state", "snapshotHash")},
})  # fmt: skip
_TOLD: Final = Shape({"type": "object"})


def _leaf(name: str, fields: dict[str, Any], *required: str, rules: dict[str, Any] | None = None, **more: Any) -> Operation:
    """A read, unless `effect` says otherwise."""
    schema = {"type": "object", "properties": fields, "required": list(required), **(rules or {})}
    given: dict[str, Any] = {"contract": READ, "effect": "read", "output": _TOLD, "steps": (Step("read"),)}
    if more.get("effect", "read") != "read":
        given = {
            "contract": CONTRACT,
            "verify": "readback",
            "output": _QUEUED,
            "steps": (Step("queue", effect=True, reply=_QUEUED, echo=("nodeId",)),),
        }
        given |= {"based_on": "snapshotHash"} if "snapshotHash" in fields else {}
    return Operation(name=f"media.{name}", arguments=closed(schema), **given | more)


MODEL_LIST: Final = _leaf("model_list", {"mode": {"enum": list(MODES)}, "referenceNodeIds": _REFERENCES}, "mode", "referenceNodeIds")
GENERATE: Final = _leaf(
    "generate_media",
    {
        "mode": {"enum": list(MODES)}, "prompt": _PROMPT, "nodeId": ID, "title": _TITLE, "referenceNodeIds": _REFERENCES, **_SELECTION,
        "durationSeconds": {"type": "number", "exclusiveMinimum": 0, "maximum": limits.SECONDS}, "size": _SIZE,
        "quality": _QUALITY, "videoGenerateAudio": {"type": "boolean"}, "snapshotHash": _HASH,
        "sourceNodeId": {**ID, "description": "a text node the prompt comes from; never media"}, "referenceTransientIds": _TRANSIENTS,
    },
    "mode", "prompt", "nodeId", "title", "referenceNodeIds",
    rules={"oneOf": _ONE_MODEL["oneOf"], "allOf": [*_ONE_MODEL["allOf"], *_BY_MODE]}, effect="pay", answers="ticket",
)  # fmt: skip
LAYER_SPLIT: Final = _leaf(
    "image_layer_split",
    {
        "prompt": _PROMPT, "nodeId": ID, "title": _TITLE, "referenceNodeIds": {**_REFERENCES, "minItems": 1, "maxItems": 1}, **_SELECTION,
        "quality": _QUALITY, "snapshotHash": _HASH, "referenceTransientIds": _TRANSIENTS,
    },
    "prompt", "nodeId", "title", "referenceNodeIds", rules=_ONE_MODEL, effect="write", answers="ticket",
)  # fmt: skip
TASK_GET: Final = _leaf("task_get", {"taskId": _LONG_ID}, "taskId")
INSPECT: Final = _leaf("canvas_inspect_image", {"nodeId": ID, "refresh": {"type": "boolean"}}, "nodeId")
TEXT_DETECT: Final = _leaf("image_text_detect", {"nodeId": ID}, "nodeId")
ANNOTATE: Final = _leaf(
    "image_annotation_render",
    {
        "nodeId": ID,
        "annotations": {
            "type": "array", "minItems": 1, "maxItems": limits.ANNOTATIONS, "items": {
                "type": "object", "required": ["label", "x", "y"], "properties": {
                    "label": {"type": "string", "maxLength": limits.LABEL_CHARS, "pattern": _TEXT},
                    "x": {"type": "number", "minimum": 0, "maximum": 1}, "y": {"type": "number", "minimum": 0, "maximum": 1},
                },
            },
        },
    },
    "nodeId", "annotations",
)  # fmt: skip
CANCEL: Final = _leaf(
    "task_cancel", {"taskId": _LONG_ID}, "taskId", effect="write",
    steps=(Step("cancel", effect=True, reply=Shape({"type": "object", "required": ["taskId", "state"]}), echo=("taskId",)),), output=_TOLD,
)  # fmt: skip
SETTLE: Final = _leaf(
    "task_settle", {"taskId": _LONG_ID, "as": {"enum": ["charged", "not_charged"]}}, "taskId", "as", effect="write", confirm=True,
    steps=(Step("settle", effect=True, reply=Shape({"type": "object", "required": ["taskId", "state"]}), echo=("taskId",)),), output=_TOLD,
)  # fmt: skip
RECOVER: Final = _leaf(
    "task_recover", {"taskId": _LONG_ID, "nodeId": ID}, "taskId", "nodeId", effect="write",
    steps=(Step("place", effect=True, reply=Shape({"type": "object", "required": ["taskId", "nodeIds", "snapshotHash"]}), echo=("taskId",)),),
    output=_TOLD,
)  # fmt: skip
UPLOAD: Final = _leaf(
    "upload", {"nodeId": ID, "title": _TITLE, "file": {"type": "string", "maxLength": _FILE_CHARS, "description": "the file, base64"}},
    "nodeId", "title", "file", effect="write",
    steps=(Step("place", effect=True, reply=Shape({"type": "object", "required": ["nodeId", "snapshotHash"]}), echo=("nodeId",)),), output=_TOLD,
)  # fmt: skip
BATCH_RUN: Final = _leaf(
    "batch_run",
    {"nodeId": ID, **_SELECTION, "size": _SIZE, "quality": _QUALITY},
    "nodeId", rules=_ONE_MODEL, effect="pay",
    steps=(Step("queue", effect=True, reply=Shape({"type": "object", "required": ["taskIds", "state"]}), echo=("nodeId",)),), output=_TOLD,
)  # fmt: skip
