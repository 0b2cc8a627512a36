"""Who may do what: roles of the users of a tenant on documents and folders, asked before every request is served.

A role on a folder holds for all that stands in it, however deep; the highest that holds counts. A user "" is whoever owns the
tenant: everything is theirs. What a user has no role on is not there for them, in the same words as what never was; with a role too
low a request is permission_denied. `NEEDS` is the whole table. Seed: S0.5, S0.38.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, get_args

from msgspec.structs import replace

from ..contract.problem import problem
from ..db import Tx
from . import items, store, tasks, writes
from . import requests as ask
from .index import Seen
from .store import OPEN

Role = Literal["READER", "DOWNLOADER", "EDITOR", "MANAGER"]
#: From the least to the most; each may do what those before it may.
ROLES: Final[tuple[Role, ...]] = get_args(Role)
#: How high each is; what is no role of ours is none.
_HEIGHT: Final[dict[str, int]] = {role: n for n, role in enumerate(ROLES, 1)}
Need = tuple[str, Role]


def _put(r: ask.Put) -> Sequence[Need]:
    """A title is an editor's; where a node stands, and whether, is a manager's."""
    role: Role = "MANAGER" if r.container is not None or r.state is not None else "EDITOR"
    return [(r.node, role), *([(r.container, "EDITOR")] if r.container is not None else [])]


_TO_ATTACH: Final[dict[str, Role]] = {"access": "MANAGER", "comment": "READER", "media": "EDITOR"}


def _attach(r: ask.Attach) -> Sequence[Need]:
    return [(r.node, _TO_ATTACH[r.kind])]


def _submit(r: ask.Submit) -> Sequence[Need]:
    return _work(tasks.work_of(r.body))


def _work(work: tasks.Import | tasks.Export) -> Sequence[Need]:
    return [(work.container, "EDITOR")] if isinstance(work, tasks.Import) else [(work.node, "DOWNLOADER")]


def _reads(r: Any) -> Sequence[Need]:
    return [(r.node, "READER")]


def _items(r: ask.Attached | ask.Facts) -> Sequence[Need]:
    """Who has which role is a manager's to know."""
    return [(r.node, "MANAGER" if r.kind == "access" else "READER")]


def _none(_: Any) -> Sequence[Need]:
    return []


def _edits(r: Any) -> Sequence[Need]:
    return [(r.node, "EDITOR")]


#: What each request needs: (node, role) pairs. Lists name none: they hold what a user has a role on, and nothing else. A copy is all
#: of its maker's, the files in it too: so it takes the role that may have them. What is asked of a task: `admit_task`;
#: of a step: `_admit_find`.
NEEDS: Final[dict[type, Callable[[Any], Sequence[Need]]]] = {
    ask.Create: lambda r: [(r.container, "EDITOR")], ask.Copy: lambda r: [(r.source, "DOWNLOADER"), (r.container, "EDITOR")],
    ask.Edit: _edits, ask.Revert: _edits, ask.Save: _edits, ask.Put: _put, ask.Purge: lambda r: [(r.node, "MANAGER")],
    ask.Attach: _attach, ask.Describe: _reads, ask.Content: _reads, ask.Versions: _reads, ask.Facts: _items, ask.Attached: _items,
    ask.Blob: lambda r: [(r.node, "READER" if r.small else "DOWNLOADER")],
    ask.Nodes: _none, ask.Search: _none, ask.Find: _none, ask.Submit: _submit, ask.Cancel: _none,
}  # fmt: skip


#: From the node up, by name: `cross join` keeps the order, `+` keeps the planner from all that stands in the tenant.
_ABOVE: Final = (
    "with recursive up (id) as (select cast(? as text) union"
    " select p.container from up cross join doc_place p where p.id = up.id and p.tenant = ? and p.until_seq = ?) "
    "select mark from doc_item where tenant = ? and kind = 'access' and id = ? and +until_seq = ? and node in (select id from up)"
)


def role_of(tx: Tx, tenant: str, user: str, node: str) -> int:
    """How high the role of a user on a node is: 0 = none, else its place in ROLES, from 1."""
    found = tx.rows(_ABOVE, node, tenant, OPEN, tenant, user, OPEN)
    return max((_HEIGHT.get(mark, 0) for (mark,) in found), default=0)


def admit(tx: Tx, tenant: str, user: str, request: object) -> None:
    """Raises not_found or permission_denied unless this user may ask this. "" may ask anything."""
    if not user or (isinstance(request, ask.Facts) and _wrote(tx, tenant, user, request)):
        return
    if isinstance(request, ask.Find):
        _admit_find(tx, tenant, user, request)
    if isinstance(request, ask.Cancel):
        admit_task(tx, tenant, user, request.task)
    _has(tx, tenant, user, NEEDS[type(request)](request))
    if isinstance(request, ask.Attach) and request.kind == "comment":
        _own_comment(tx, tenant, user, request)


def admit_task(tx: Tx, tenant: str, user: str, task_id: str) -> tasks.Task:
    """The task. To be told of it or to stop it needs what to submit it does; who has no role there is told that there is none."""
    task = tasks.get(tx, tenant, task_id)
    needs = _work(tasks.body_of(task).work)
    if user and not any(role_of(tx, tenant, user, node) for node, _ in needs):
        raise tasks.missing(task_id)
    _has(tx, tenant, user, needs)
    return task


def admit_work(tx: Tx, tenant: str, body: tasks.Body) -> None:
    """Whether a task may still be done for whom it was submitted: roles are taken away meanwhile. Raises as `admit`."""
    _has(tx, tenant, body.user, _work(body.work))


def _has(tx: Tx, tenant: str, user: str, needs: Sequence[Need]) -> None:
    for node, needed in needs if user else ():
        has = role_of(tx, tenant, user, node)
        if has == 0 and node != ask.ROOT:
            raise store.missing(node)
        if has < ROLES.index(needed) + 1:
            raise _denied(node, has, needed)


def _admit_find(tx: Tx, tenant: str, user: str, r: ask.Find) -> None:
    """Who may write where a step is about, or made it. Anybody else is told the same, whether it was or not. Raises not_found."""
    known = writes.recall(tx, tenant, r.step_id)
    if known is not None and known.reply is not None and known.who == user and json.loads(known.reply).get("nodeId") == r.node:
        return
    there = r.node and store.find_node(tx, tenant, r.node) is not None
    if not r.node or not _edits_there(tx, tenant, user, r.node if there else r.container):
        raise problem("not_found", "there is no such step", stage="resolve")


def _wrote(tx: Tx, tenant: str, user: str, r: ask.Facts) -> bool:
    """Whether this user wrote exactly what is asked about by the step named, in that very revision; of anything else it proves nothing."""
    known = writes.recall(tx, tenant, r.step) if r.step else None
    if known is None or known.reply is None or known.who not in (user, None):
        return False
    did = json.loads(known.reply)
    named = {"nodeId": r.node, "revision": r.revision, "version": r.version or None}
    named |= {"kind": r.kind, "item": r.item, "seq": r.seq} if r.seq else {}
    return all(did.get(name) == value for name, value in named.items() if value is not None)


def _own_comment(tx: Tx, tenant: str, user: str, r: ask.Attach) -> None:
    """Others' comments are answered by anybody who reads, and settled or taken away by who may edit; nobody speaks for another."""
    now = items.standing(tx, tenant, r.node, r.kind, r.item)
    before, after = (items.comment_of(now[1]) if now else None), (items.comment_of(r.body) if r.body else None)
    if before is None:
        allowed = after is None or (after.author == user and not after.replies)
    elif after is None:
        allowed = before.author == user or _edits_there(tx, tenant, user, r.node)
    elif added := after.replies[len(before.replies) :]:
        allowed = replace(after, replies=after.replies[: len(before.replies)]) == before and all(reply.author == user for reply in added)
    elif before.author == user:
        allowed = replace(after, content=before.content, anchor=before.anchor, state=before.state) == before
    else:
        allowed = replace(after, state=before.state) == before and _edits_there(tx, tenant, user, r.node)
    if not allowed:
        raise _denied(r.node, 0, "EDITOR")


def _edits_there(tx: Tx, tenant: str, user: str, node: str) -> bool:
    return role_of(tx, tenant, user, node) >= _HEIGHT["EDITOR"]


def _denied(node: str, has: int, needed: Role) -> Exception:
    details = {"nodeId": node, "role": ROLES[has - 1] if has else None, "needs": needed}
    return problem("permission_denied", f"this needs the role {needed}", stage="permission", details=details)


#: A user's nodes: those with a role of their own, and folders below them. What stands in one of these is theirs too.
SEEN: Final = (
    "with recursive box (id) as (select node from doc_item where tenant = ? and kind = 'access' and id = ? and until_seq = ?"
    " union select b.id from doc_place b join box on b.container = box.id where b.tenant = ? and b.until_seq = ? and b.type = 'folder') "
)


#: Where a row's node stands now: an earlier list is asked for by its number, and what has left a folder since is no more theirs there.
_NOW: Final = f"(select n.container from doc_place n where n.tenant = {{place}}.tenant and n.id = {{place}}.id and +n.until_seq = {OPEN})"  # noqa: S608


def seen(tenant: str, user: str, place: str = "doc_place") -> Seen:
    """For a query over places: what stands before it, a condition on its rows (of the alias `place`), and the values of the first."""
    if not user:
        return "", "", ()
    box, now = "in (select id from box)", _NOW.format(place=place)
    theirs = f" and ({place}.id {box} or ({place}.container {box} and {now} {box}))"
    return SEEN, theirs, (tenant, user, OPEN, tenant, OPEN)
