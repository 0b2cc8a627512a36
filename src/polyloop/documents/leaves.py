"""Every operation on documents: one table, from which come arguments, agent tools, checks and receipts (S0.1, S1.2)."""

from __future__ import annotations

from typing import Any, Final

from ..contract.leaf import Operation, Step
from ..contract.paging import LIST, MAX_ITEMS, MAX_PAGES
from ..contract.schema import EXACT_MAX, Shape, closed, exactly_one, not_both, only_with
from ..formats import Target
from ..formats.blocks import BLOCK_TYPES
from . import limits

#: What a document can be exported as, and the format that writes it.
TARGETS: Final[dict[str, Target]] = {"docx": "docx", "markdown": "md", "pdf": "pdf", "html": "html"}

CONTRACT: Final = "doc.operation.v1"
READ: Final = "doc.read.v1"
CONTENT: Final = "doc.content.v1"

_ID: Final = {"type": "string", "maxLength": 100, "pattern": r"^[^\x00-\x1f\x7f]+$"}
#: One line, and more than blanks.
_TITLE: Final = {"type": "string", "maxLength": limits.TITLE_CHARS, "pattern": r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$"}
_FORMAT: Final = {"enum": ["markdown", "blocks", "text"]}
_CONTENT: Final = {"type": ["string", "array"], "description": "Markdown, plain text, or blocks as fetch gives them (format says which)"}
_REVISION: Final = {"type": "integer", "minimum": 1, "maximum": EXACT_MAX}
_BOTH: Final = {"nodeId": _ID, "url": {**_ID, "maxLength": 500}}
_ANY: Final = {**_BOTH, "title": _TITLE}
_GUARD: Final = {
    "expectedRevision": {**_REVISION, "description": "the revision the change is based on; refused if the document has moved on"},
    "force": {"type": "boolean", "description": "write whatever the revision is"},
}
_PAGING: Final = {
    "limit": {"type": "integer", "minimum": 1, "maximum": limits.PAGE_MAX, "description": "page size"},
    "continuation": {"type": "string", "maxLength": 2000, "description": "goes on where an earlier answer to the same question ended"},
    "all": {"type": "boolean", "description": "false = one page"},
    "maxPages": {"type": "integer", "minimum": 1, "maximum": MAX_PAGES},
    "maxItems": {"type": "integer", "minimum": 1, "maximum": MAX_ITEMS},
}
_BLOCK: Final = {"blockId": _ID, "afterBlockId": _ID}
#: What each command of `update` must be told, and may be (`?`); a field of another command is a mistake, never ignored.
COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "append": ("content", "format?"), "overwrite": ("content", "format?", "allowBlockLoss?"), "insert_before": ("blockId", "content", "format?"),
    "insert_after": ("blockId|afterBlockId", "content", "format?"), "replace": ("blockId", "content", "format?", "allowBlockLoss?"),
    "delete": ("blockId",), "copy": ("blockId", "afterBlockId"), "move": ("blockId", "afterBlockId"), "str_replace": ("old", "new", "blockId?"),
}  # fmt: skip
#: The same for the two modes of `checkpoint_update`, and for the scopes of `fetch`.
MODES: Final[dict[str, tuple[str, ...]]] = {mode: COMMANDS[mode] for mode in ("append", "overwrite")}
_ENDS: Final = ("startBlockId?", "endBlockId?")
SCOPES: Final[dict[str, tuple[str, ...]]] = {
    "full": _ENDS, "outline": _ENDS, "range": _ENDS, "section": ("startBlockId",), "keyword": ("keyword", *_ENDS), "tags": ("tags", *_ENDS),
}  # fmt: skip
#: Commands that take something away: they name the revision they are based on, and a person confirms them.
TAKES_AWAY: Final = frozenset({"overwrite", "replace", "delete", "move"})

REPLY: Final = Shape({
    "type": "object", "required": ["nodeId", "revision", "before"],
    "properties": {"nodeId": {"type": "string", "minLength": 1}, "revision": _REVISION, "before": {"type": "integer", "minimum": 0}},
})  # fmt: skip
_WRITTEN: Final = Shape({"type": "object", "required": ["nodeId"], "properties": {"nodeId": {"type": "string"}, "revision": _REVISION}})
_SAVED: Final = Shape({**REPLY.raw, "required": [*REPLY.raw["required"], "version"], "properties": {**REPLY.raw["properties"], "version": _REVISION}})
_LISTED: Final = Shape({
    "type": "object", "required": ["contractVersion", "items", "count", "complete", "hasMore", "truncated", "stopReason", "continuation"],
    "properties": {"contractVersion": {"const": LIST}},
})  # fmt: skip
_TOLD: Final = Shape({"type": "object", "required": ["contractVersion", "operation", "status", "complete", "data"]})

WRITE: Final = Step("write", effect=True, reply=REPLY, echo=("nodeId",))
_UPLOAD: Final = Step("upload", effect=True, reply=REPLY, echo=("nodeId",))
#: A file of this machine; that it stands there whole is read again.
_LANDING: Final = Step("land", effect=True, reply=Shape({
    "type": "object", "required": ["state", "path", "sha256", "bytes"], "properties": {"state": {"const": "landed"}},
}))  # fmt: skip
_CHECKPOINT: Final = Step("checkpoint", effect=True, reply=_SAVED, echo=("nodeId",))


#: How a task is told of. Its id proves nothing; its state does.
_TASK: Final = Shape({
    "type": "object", "required": ["taskId", "kind", "state"],
    "properties": {"taskId": {"type": "string", "minLength": 1}, "kind": {"type": "string"}, "state": {"type": "string"}},
})  # fmt: skip
_SUBMIT: Final = Step("submit", effect=True, reply=_TASK)
_FINISH: Final = Step("finish", awaits=True)
_CANCEL: Final = Step("cancel", effect=True, reply=_TASK)


def _needs(name: str, table: dict[str, tuple[str, ...]], usual: str = "") -> dict[str, Any]:
    """A schema fragment: which fields must (`a|b` = one of the two) and may (`a?`) stand for which value of `name`; the others of the

    table may not. `usual` = the value meant where none is given.
    """
    fields = {part for told in table.values() for field in told for part in field.rstrip("?").split("|")}
    rules = [{"if": {"properties": {name: {"const": value}}, "required": [name]}, "then": _then(told, fields)} for value, told in table.items()]
    return {"allOf": [*rules, *([{"if": {"not": {"required": [name]}}, "then": _then(table[usual], fields)}] if usual else [])]}


def _then(told: tuple[str, ...], fields: set[str]) -> dict[str, Any]:
    one = [exactly_one(*field.split("|")) for field in told if "|" in field]
    other = sorted(fields - {part for field in told for part in field.rstrip("?").split("|")})
    return {"required": [f for f in told if "|" not in f and "?" not in f], "properties": dict.fromkeys(other, False), **(one[0] if one else {})}


def _op(name: str, fields: dict[str, Any], *required: str, write: bool = True, **more: Any) -> Operation:
    """A leaf. Fields of a target stand for exactly one of nodeId, url, title."""
    schema: dict[str, Any] = {"type": "object", "properties": fields, "required": list(required), **more.pop("rules", {})}
    if "nodeId" in fields:
        schema |= exactly_one(*(n for n in ("nodeId", "url", "title") if n in fields and n not in (*required, *more.get("own", ()))))
    more.pop("own", None)
    given: dict[str, Any] = {"contract": CONTRACT, "effect": "write", "verify": "readback", "output": _WRITTEN, "steps": (WRITE,), "retry": "once"}
    if not write:
        given |= {"contract": READ, "effect": "read", "verify": "none", "output": _TOLD, "steps": (Step("read"),), "retry": "never"}
    elif "expectedRevision" in fields:
        given["based_on"] = "expectedRevision"
    return Operation(name=f"doc.{name}", arguments=closed(schema), **given | more)


_NEW: Final = {"title": _TITLE, "containerId": _ID}
_UPDATE: Final = {"content": _CONTENT, "format": _FORMAT, "allowBlockLoss": {"type": "boolean"}}
_PRINTED: Final = {"type": "string", "pattern": r"^[^\x00]*$"}
_TEXTS: Final = {"old": _PRINTED, "new": {**_PRINTED, "minLength": 0}}
_SCOPED: Final = {
    "scope": {"enum": ["full", "outline", "range", "section", "keyword", "tags"]}, "format": _FORMAT, "revision": _REVISION,
    "startBlockId": _ID, "endBlockId": _ID, "keyword": {"type": "string", "maxLength": 300, "description": "alternatives are parted by |"},
    "maxChars": {
        "type": "integer", "minimum": 1,
        "description": "at most about so much; the rest begins at nextBlockId (of a section: scope range from there to endBlockId)",
    },
    "tags": {"type": "array", "items": {"enum": list(BLOCK_TYPES)}, "minItems": 1, "description": "block types"},
}  # fmt: skip
_VERSION: Final = _REVISION
_SEEN: Final = {
    "format": {"enum": ["blocks", "html"], "description": "html = a page to read"},
    "offset": {"type": "integer", "minimum": 0, "description": "go on at nextOffset"},
    "maxChanges": {"type": "integer", "minimum": 1, "maximum": limits.CHANGES},
}  # fmt: skip
_PATH: Final = {"type": "string", "maxLength": 4096, "description": "relative to the working folder"}
_FILE: Final = {
    "format": {"enum": list(TARGETS)},
    "output": _PATH,
    "overwrite": {"type": "boolean", "description": "take the place of a file that is there"},
}
_LAND: Final = {"output": _PATH, "overwrite": _FILE["overwrite"]}
_TASKED: Final[dict[str, Any]] = {"output": _TASK}
_QUERY: Final = {
    **_PRINTED, "maxLength": limits.QUERY_CHARS,
    "description": 'words between blanks must all occur, in any order; Chinese of any length; "words between quotes" stand side by side',
}  # fmt: skip
_COMMENT: Final = {**_PRINTED, "maxLength": limits.COMMENT_CHARS}
_PLACE: Final = {
    "blockId": _ID, "quote": {**_PRINTED, "maxLength": 1000, "description": "the very words it is about; they must occur once"},
    "start": {"type": "integer", "minimum": 0, "description": "first character in the block"}, "end": {"type": "integer", "minimum": 0},
}  # fmt: skip
#: Where a comment stands: words, or a stretch of a block (all of it if no ends are given), or nowhere in particular.
_PLACED: Final = {
    "dependentRequired": {"start": ["blockId"], "end": ["blockId"]},
    **not_both("quote", "start"),
    "not": {"required": ["quote", "end"]},
}
_USER: Final = {**_ID, "maxLength": limits.NAME_CHARS}
_ROLE: Final = {"enum": ["READER", "DOWNLOADER", "EDITOR", "MANAGER"], "description": "each may do what those before it may"}

OPERATIONS: Final[dict[str, Operation]] = {
    op.name.removeprefix("doc."): op
    for op in (
        _op("create", {**_NEW, "content": _CONTENT, "format": _FORMAT}, "title", rules=only_with("format", "content")),
        _op("create_folder", _NEW, "title"),
        _op("fetch", {**_ANY, **_SCOPED}, write=False, contract=CONTENT, rules=_needs("scope", SCOPES, "full")),
        _op("list", {"containerId": _ID, **_PAGING}, write=False, contract=LIST, output=_LISTED),
        _op("search", {"query": _QUERY, "containerId": _ID, **_PAGING}, "query", write=False, contract=LIST, output=_LISTED),
        _op("inspect", _ANY, write=False),
        _op("resolve", _ANY, write=False),
        _op(
            "update", {**_ANY, **_GUARD, "command": {"enum": list(COMMANDS)}, **_BLOCK, **_UPDATE, **_TEXTS}, "command",
            rules=_needs("command", COMMANDS),
        ),
        _op(
            "checkpoint_update", {**_ANY, **_GUARD, "mode": {"enum": ["append", "overwrite"]}, **_UPDATE}, "content", "mode",
            rules=_needs("mode", MODES), steps=(_CHECKPOINT, WRITE),
        ),
        _op("version_save", {**_ANY, "label": _TITLE, **_GUARD}, steps=(Step("write", effect=True, reply=_SAVED, echo=("nodeId",)),)),
        _op("version_list", {**_ANY, **_PAGING}, write=False, contract=LIST, output=_LISTED),
        _op("version_revert", {**_ANY, **_GUARD, "version": _VERSION, "revision": _REVISION}, confirm=True),
        _op("version_diff", {**_ANY, "from": _VERSION, "to": _VERSION, **_SEEN}, "from", "to", write=False),
        _op("copy", {**_BOTH, **_GUARD, **_NEW}, own=("title",)),
        _op("move", {**_ANY, **_GUARD, "containerId": _ID}, "containerId", confirm=True),
        _op("rename", {**_BOTH, **_GUARD, "title": _TITLE}, "title"),
        _op("delete", {**_ANY, **_GUARD}, confirm=True),
        _op("restore", {**_BOTH, **_GUARD, "containerId": {**_ID, "description": "where to, if not where it stood"}}),
        _op("purge", {**_BOTH, **_GUARD}, confirm=True),
        _op("comment_create", {**_ANY, **_GUARD, "content": _COMMENT, **_PLACE}, "content", rules=_PLACED),
        _op("comment_list", {**_ANY, "state": {"enum": ["open", "resolved", "all"]}, **_PAGING}, write=False, contract=LIST, output=_LISTED),
        _op("comment_reply", {**_ANY, **_GUARD, "commentId": _ID, "content": _COMMENT}, "commentId", "content"),
        _op("comment_resolve", {**_ANY, **_GUARD, "commentId": _ID, "resolved": {"type": "boolean"}}, "commentId"),
        _op("comment_delete", {**_ANY, **_GUARD, "commentId": _ID}, "commentId", confirm=True),
        _op("access_list", {**_ANY, **_PAGING}, write=False, contract=LIST, output=_LISTED),
        _op("access_grant", {**_ANY, **_GUARD, "user": _USER, "role": _ROLE}, "user", "role", confirm=True),
        _op("access_change", {**_ANY, **_GUARD, "user": _USER, "role": _ROLE}, "user", "role", confirm=True),
        _op("access_revoke", {**_ANY, **_GUARD, "user": _USER}, "user", confirm=True),
        _op("media_insert", {**_ANY, **_GUARD, "file": _PATH, "name": _TITLE, "afterBlockId": _ID}, "file", steps=(_UPLOAD, WRITE)),
        _op("media_list", {**_ANY, **_PAGING}, write=False, contract=LIST, output=_LISTED),
        _op("media_download", {**_ANY, "resourceId": _ID, **_LAND}, "resourceId", "output", steps=(_LANDING,)),
        _op("media_preview", {**_ANY, "resourceId": _ID, **_LAND}, "resourceId", "output", steps=(_LANDING,)),
        _op("import", {"file": _PATH, **_NEW, "asUpload": {"type": "boolean"}}, "file", **_TASKED, steps=(_SUBMIT, _FINISH), verify="terminal_state"),
        _op("export", {**_ANY, **_FILE}, "format", "output", **_TASKED, steps=(_SUBMIT, _FINISH), verify="terminal_state"),
        _op("export_submit", {**_ANY, **_FILE}, "format", "output", **_TASKED, steps=(_SUBMIT,), answers="ticket"),
        _op("task_cancel", {"taskId": _ID}, "taskId", **_TASKED, steps=(_CANCEL,)),
    )
}  # fmt: skip

_AFTERWARDS: Final = closed({"type": "object", "required": ["operationId"], "properties": {"operationId": {**_ID, "maxLength": 200}}})
#: Operations whose work is a task. They are kept beside the journal, whatever the transport.
TASKED: Final = frozenset({"import", "export", "export_submit", "task_cancel"})
#: Operations that land a file: the journal notes each step on its own, because a file is in no transaction.
LANDED: Final = frozenset({"media_download", "media_preview"})
#: Their steps that are carried out there.
LOCAL: Final = frozenset({"submit", "cancel"})
#: What a task is asked about with.
TASK_GETS: Final[dict[str, Shape]] = dict.fromkeys(
    ("import_get", "export_get"), closed({"type": "object", "required": ["taskId"], "properties": {"taskId": _ID}})
)
#: What is asked about an operation afterwards. These are carried out by the runtime itself.
AFTERWARDS: Final[dict[str, Shape]] = dict.fromkeys(("reconcile", "compensate", "operation_get"), _AFTERWARDS)
#: What goes through no pipeline of its own: arguments by name.
ASIDE: Final[dict[str, Shape]] = {**AFTERWARDS, **TASK_GETS}

#: One line each, for models and people who choose an operation.
PURPOSE: Final[dict[str, str]] = {
    "create": "Make a document.", "create_folder": "Make a folder.", "fetch": "Read a document or a part of it.",
    "list": "List documents and folders; complete=true proves that all are there.",
    "search": "Find documents and folders by words of title or content, newest first.", "inspect": "Facts about one document or folder.",
    "resolve": "Find the one node of a title, id or url.", "update": "Change the content of a document.",
    "checkpoint_update": "Save a version, then change the content.", "version_save": "Name the content as it stands.",
    "version_list": "List the saved versions.", "version_revert": "Bring an earlier content back.",
    "version_diff": "What came, went, changed and moved between two versions, block by block and word by word.",
    "copy": "Copy a document.", "move": "Move into another folder.", "rename": "Give another title.", "delete": "Move to the trash.",
    "restore": "Bring back from the trash.", "purge": "Erase what is in the trash, for good.",
    "comment_create": "Comment on a document, or on words in it.", "comment_list": "List comments, each with where it stands now.",
    "comment_reply": "Answer a comment.", "comment_resolve": "Settle a comment, or open it again.", "comment_delete": "Take a comment away.",
    "access_list": "List who has a role of their own here.", "access_grant": "Give somebody a role here and below.",
    "access_change": "Give somebody another role.", "access_revoke": "Take somebody's role away.",
    "media_insert": "Put a file into a document.", "media_list": "List what was put in, and where it is shown.",
    "media_download": "Land a file that was put in.", "media_preview": "Land a small picture of one that was put in.",
    "import": "Make a document of a file.", "import_get": "How an import stands.", "export": "Land a document as a file.",
    "export_submit": "Have a document landed as a file by a worker.", "export_get": "How an export stands.",
    "task_cancel": "Stop an import or export that has not begun to write.",
    "reconcile": "Find out what became of an operation; nothing is sent again.", "compensate": "Take an operation back.",
    "operation_get": "What is recorded of an operation.",
}  # fmt: skip
