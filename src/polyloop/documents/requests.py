"""What can be asked of a document service: the messages of the transport seam, all plain JSON, tagged by `verb`.

A write travels under a step id and is carried out at most once under it; the step id of a write that was proved absent is
fenced. A service raises ProblemError for what it refuses, always before it has begun (`execution_started` False).
Seed: S0.8, S0.11, S0.39.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Protocol

import msgspec
from msgspec import Meta, Struct

from . import limits

#: No store of any kind keeps a NUL in a text.
NO_NUL = r"^[^\x00]*\Z"
Id = Annotated[str, Meta(min_length=1, max_length=100, pattern=NO_NUL)]
Title = Annotated[str, Meta(min_length=1, max_length=limits.TITLE_CHARS, pattern=NO_NUL)]
Label = Annotated[str, Meta(max_length=limits.TITLE_CHARS, pattern=NO_NUL)]
Bodies = Annotated[tuple[str, ...], Meta(max_length=limits.BLOCKS)]
Revision = Annotated[int, Meta(ge=0, le=2**53)]
#: The container of what stands in no folder.
ROOT = "root"


#: Operation, attempt and step (`Entry.step_id`); "" = none.
StepId = Annotated[str, Meta(max_length=400, pattern=NO_NUL)]


class Ask(Struct, frozen=True, kw_only=True, tag_field="verb", tag=str.lower, forbid_unknown_fields=True):
    """A request."""


class Create(Ask, frozen=True, kw_only=True):
    """A document or folder under an id the caller chose. `blocks` = JSON of formats.Block each."""

    node: Id
    type: Literal["document", "folder"] = "document"
    title: Title
    container: Id = ROOT
    blocks: Bodies = ()


class Edit(Ask, frozen=True, kw_only=True):
    """Take blocks out, change some where they stand, put some in; in this order, in one revision.

    `remove` None = all. `was` = hashes blocks must still have. `ids` = ids for `blocks` (moved ones keep theirs).
    """

    node: Id
    expected: Revision | None = None
    was: dict[Id, str] = {}
    remove: tuple[Id, ...] | None = ()
    change: dict[Id, str] = {}
    blocks: Bodies = ()
    ids: tuple[Id, ...] = ()
    side: Literal["end", "before", "after"] = "end"
    anchor: Annotated[str, Meta(max_length=100, pattern=NO_NUL)] = ""


class Revert(Ask, frozen=True, kw_only=True):
    """Make the content what it was at an earlier revision."""

    node: Id
    expected: Revision | None = None
    revision: Revision


class Copy(Ask, frozen=True, kw_only=True):
    """A new document with the content of another, as it stands."""

    node: Id
    source: Id
    expected: Revision | None = None
    title: Title
    container: Id = ROOT


class Put(Ask, frozen=True, kw_only=True):
    """Rename, move, trash, restore: what is None stays."""

    node: Id
    expected: Revision | None = None
    title: Title | None = None
    container: Id | None = None
    state: Literal["live", "trashed"] | None = None


class Purge(Ask, frozen=True, kw_only=True):
    """Erase the content and titles of a trashed node for good."""

    node: Id
    expected: Revision | None = None


class Save(Ask, frozen=True, kw_only=True):
    """Name the content as it stands: a version."""

    node: Id
    expected: Revision | None = None
    label: Label = ""


class Submit(Ask, frozen=True, kw_only=True):
    """A task (`tasks.Body`) to be done by whoever takes it, not before `due`."""

    task: Id
    kind: str
    session: str
    due: int
    body: str


class Cancel(Ask, frozen=True, kw_only=True):
    """Nobody shall begin a task, or go on with it."""

    task: Id


ItemKind = Literal["comment", "access", "media"]
#: A comment's id, a user, or a resource.
ItemId = Annotated[str, Meta(max_length=limits.NAME_CHARS, pattern=NO_NUL)]


class Attach(Ask, frozen=True, kw_only=True):
    """Hang an item on a node, change it, or take it away (`body` ""). `was` = the hash it must have now, "" = it must not be there."""

    node: Id
    expected: Revision | None = None
    kind: ItemKind
    item: ItemId
    mark: Label = ""
    body: Annotated[str, Meta(max_length=limits.ITEM_CHARS, pattern=NO_NUL)] = ""
    was: str | None = None
    data: Annotated[bytes, Meta(max_length=limits.MEDIA_BYTES)] = b""


class Blob(Ask, frozen=True, kw_only=True):
    """The bytes of a media item, or a small picture of them: `{"data": ...}`, in JSON as base64."""

    node: Id
    item: ItemId
    small: bool = False


class Attached(Ask, frozen=True, kw_only=True):
    """One page of the items of a kind on a node, oldest first; `mark`, `item` "" = any."""

    node: Id
    kind: ItemKind
    mark: Label = ""
    item: ItemId = ""
    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=limits.PAGE_MAX)] = limits.PAGE
    snapshot: str = ""


class Describe(Ask, frozen=True, kw_only=True):
    """One node. `since` = also what changed after that revision."""

    node: Id
    since: Revision | None = None


class Content(Ask, frozen=True, kw_only=True):
    """The blocks at a revision, None = now."""

    node: Id
    revision: Revision | None = None


class Nodes(Ask, frozen=True, kw_only=True):
    """One page of the live nodes at a snapshot ("" = now), in the order of their making. None = any container, any title."""

    container: Id | None = None
    title: Label | None = None
    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=limits.PAGE_MAX)] = limits.PAGE
    snapshot: str = ""


class Search(Ask, frozen=True, kw_only=True):
    """One page of the live nodes that hold all words of a query at a snapshot, the newest made first. Items say in which block."""

    query: Annotated[str, Meta(min_length=1, max_length=limits.QUERY_CHARS, pattern=NO_NUL)]
    container: Id | None = None
    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=limits.PAGE_MAX)] = limits.PAGE
    snapshot: str = ""


class Versions(Ask, frozen=True, kw_only=True):
    """One page of the versions of a node, oldest first."""

    node: Id
    cursor: str = ""
    limit: Annotated[int, Meta(ge=1, le=limits.PAGE_MAX)] = limits.PAGE
    snapshot: str = ""


class Facts(Ask, frozen=True, kw_only=True):
    """What one revision (and one version, if named; and change `seq` of an item) really did, read from the rows themselves.

    `step` = the step that did it: whoever can name it may read it back, also what took away their own role.
    """

    node: Id
    step: StepId = ""
    revision: Revision
    version: Revision = 0
    kind: ItemKind = "comment"
    item: ItemId = ""
    seq: Revision = 0


class Find(Ask, frozen=True, kw_only=True):
    """What became of a step: `{"reply": ...}`, or null: it never was, and from now on never will be.

    `node` = what the step is about, and `container` = where that is to stand if it is not there yet; "" = any, for the owner alone.
    """

    step_id: StepId
    node: Annotated[str, Meta(max_length=100, pattern=NO_NUL)] = ""
    container: Annotated[str, Meta(max_length=100, pattern=NO_NUL)] = ""


#: What is kept beside the journal, and never comes over a transport: a task says in which folder of this machine a file shall stand.
Local = Submit | Cancel


class Land(Struct, frozen=True, kw_only=True):
    """A file of this machine; never sent anywhere."""

    output: str
    over: str


Write = Create | Edit | Revert | Copy | Put | Purge | Save | Attach
Read = Describe | Content | Nodes | Search | Versions | Attached | Blob | Facts | Find
Request = Write | Read
Reply = dict[str, Any]
#: What writes nothing, not even that it was asked.
READING = (Describe, Content, Nodes, Search, Versions, Attached, Blob, Facts)


class Transport(Protocol):
    """The way to one service for one tenant. Raises ProblemError, whose `execution_started` is None whenever that is not known."""

    #: Characters of content one request may carry; 0 = any.
    chunk_chars: int

    def ask(self, request: Request, step_id: str = "") -> Reply:
        """Send once; the reply as it came, unproved."""
        ...


def decode(wire: object) -> Request:
    """Raises msgspec.ValidationError."""
    return msgspec.convert(wire, Request)
