"""The node types there are: the one table behind canvas_list_node_types, the schema of operations, and what is checked.

Seed: S1.53, S1.64, S1.71, S1.72.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from ..contract.problem import as_wire
from ..contract.snapshot import stamp
from . import limits

SCHEMA_VERSION: Final = 1
OUTPUT: Final = "output"
INPUT: Final = "input"


class Field(Struct, frozen=True, rename="camel"):
    """A field of a node that may be written. `max_characters` 0 = it holds the id of a node."""

    label: str
    max_characters: int = limits.CONTENT_CHARS
    multiline: bool = True


class NodeType(Struct, frozen=True, kw_only=True, rename="camel"):
    """`kind` is what it gives as an input (S1.72), `accepts` what it takes; `max_inputs` 0 = takes none, None = as many as there are."""

    type: str
    label: str
    purpose: str
    good_for: str
    not_ideal_for: str
    width: int
    height: int
    kind: str = ""
    accepts: tuple[str, ...] = ()
    max_inputs: int | None = 0
    mode: str = ""
    handles: tuple[str, ...] = (INPUT,)
    fields: Mapping[str, Field]
    creatable: bool = True
    structured: str = ""


_TITLE: Final = Field("title", limits.TITLE_CHARS, multiline=False)
_CONTENT: Final = {"title": _TITLE, "content": Field("content")}
_PROMPT: Final = {"title": _TITLE, "prompt": Field("prompt"), "negativePrompt": Field("what to keep out")}
_FRAME: Final = Field("node that gives the frame", 0, multiline=False)
KINDS: Final = ("text", "image", "character", "video", "audio", "script")

NODE_TYPES: Final[Mapping[str, NodeType]] = {
    t.type: t
    for t in (
        NodeType(
            type="text", label="Text", purpose="a short text", good_for="notes, prompts, ideas", not_ideal_for="long documents",
            width=340, height=240, kind="text", fields=_CONTENT,
        ),
        NodeType(
            type="markdown", label="Markdown", purpose="a formatted text", good_for="outlines, scripts, briefs", not_ideal_for="shot lists",
            width=420, height=320, kind="text", fields=_CONTENT,
        ),
        NodeType(
            type="image", label="Image", purpose="a picture, made or uploaded", good_for="stills, references, key frames",
            not_ideal_for="moving pictures", width=720, height=405, kind="image", accepts=("text", "image", "character"), max_inputs=16,
            mode="image", fields=_PROMPT,
        ),
        NodeType(
            type="video", label="Video", purpose="a clip, made or uploaded", good_for="shots", not_ideal_for="stills", width=720, height=405,
            kind="video", accepts=("text", "image", "character", "video", "audio"), max_inputs=16, mode="video",
            handles=(INPUT, "startFrame", "endFrame"), fields={**_PROMPT, "startFrameNodeId": _FRAME, "endFrameNodeId": _FRAME},
        ),
        NodeType(
            type="audio", label="Audio", purpose="a sound, made or uploaded", good_for="voices, music, effects", not_ideal_for="pictures",
            width=340, height=120, kind="audio", accepts=("text", "character"), max_inputs=1, mode="audio", fields=_PROMPT,
        ),
        NodeType(
            type="script", label="Storyboard", purpose="a list of shots", good_for="planning shots row by row", not_ideal_for="free text",
            width=920, height=360, kind="script", accepts=("text", "image", "character", "video", "audio"), max_inputs=None,
            fields={"title": _TITLE}, structured="storyboard",
        ),
        NodeType(
            type="batch-table", label="Batch table", purpose="a plan of many similar pictures", good_for="variations of the same task",
            not_ideal_for="a single picture", width=1280, height=560, kind="", accepts=("image",), max_inputs=None, mode="image",
            fields={"title": _TITLE}, structured="batchTable",
        ),
        NodeType(
            type="frame", label="Frame", purpose="a box around other nodes", good_for="grouping", not_ideal_for="content", width=760, height=520,
            fields={"title": _TITLE},
        ),
        NodeType(
            type="character", label="Character", purpose="a person kept the same from picture to picture", good_for="references",
            not_ideal_for="scenes", width=264, height=352, kind="character",
            fields={"title": _TITLE, "content": Field("description")}, creatable=False,
        ),
    )
}  # fmt: skip
CREATABLE: Final = tuple(name for name, t in NODE_TYPES.items() if t.creatable)
#: Fields any type may be given, each with its widest limit: what the schema of a patch declares.
FIELDS: Final[Mapping[str, Field]] = {name: field for t in NODE_TYPES.values() for name, field in t.fields.items()}


def _told(t: NodeType) -> dict[str, Any]:
    update = {
        name: {"type": "string", "label": f.label, "displayOrder": n, "maxCharacters": f.max_characters or limits.ID_CHARS, "multiline": f.multiline}
        for n, (name, f) in enumerate(t.fields.items(), 1)
    }
    return {
        "type": t.type, "label": t.label, "purpose": t.purpose, "goodFor": t.good_for, "notIdealFor": t.not_ideal_for, "creatable": t.creatable,
        "defaultSize": {"width": t.width, "height": t.height}, "canUpdate": True, "updateFields": update, "inputKind": t.kind or None,
        "generationMode": t.mode or None, "acceptedInputKinds": list(t.accepts),
        "rejectedInputKinds": [kind for kind in KINDS if kind not in t.accepts], "maxInputCount": t.max_inputs, "canSource": t.kind != "",
        "canTarget": t.max_inputs != 0, "canReference": t.kind in ("image", "character", "video", "audio"), "structured": t.structured or None,
        "connectionHandles": {"source": [OUTPUT] if t.kind else [], "target": list(t.handles) if t.max_inputs != 0 else []},
    }  # fmt: skip


_NODES: Final = [_told(t) for t in NODE_TYPES.values()]
#: Of everything the registry says: what canvas_list_node_types was read at.
REGISTRY_HASH: Final = stamp("registry", [SCHEMA_VERSION, [as_wire(t) for t in NODE_TYPES.values()]])


def node_types() -> dict[str, Any]:
    """The answer of canvas_list_node_types."""
    guide = [{"when": t.good_for, "use": t.type} for t in NODE_TYPES.values() if t.creatable]
    return {"schemaVersion": SCHEMA_VERSION, "registryHash": REGISTRY_HASH, "nodes": _NODES, "selectionGuide": guide}
