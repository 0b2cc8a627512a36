"""Listings that prove what they cover (`doc.list.v1`).

Theory of operation. `walk` is a sans-IO generator: it yields `Fetch`, is sent the `Page` (or the Problem that came
instead) and returns the `Listing`. A chain of pages starts at the first page of one snapshot and goes on through signed
continuations, which carry what the chain has covered so far. `complete` is a proof: the chain began at the beginning,
it stayed in one snapshot, and the service's own count there equals what was covered. Whatever breaks the chain is a
typed error that keeps the items read; only the two bounds may truncate, never a failure.

Seed: S0.26-S0.35, S1.32.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Generator
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from .problem import Kind, Problem, ProblemError, is_object, problem
from .snapshot import digest

LIST: Final = "doc.list.v1"
MAX_PAGES: Final = 20
MAX_ITEMS: Final = 1000

#: What broke a chain: the service's listing (kind pagination) or the continuation a caller handed in (kind validation).
KIND_BY_REASON: Final[dict[str, Kind]] = {
    "page_failed": "pagination", "missing_cursor": "pagination", "stalled_cursor": "pagination", "cyclic_cursor": "pagination",
    "page_size_exceeded": "pagination", "snapshot_changed": "pagination", "duplicate_item": "pagination", "count_mismatch": "pagination",
    "expired_cursor": "pagination", "foreign_cursor": "validation", "changed_query": "validation", "tampered_cursor": "validation",
}  # fmt: skip
#: A first page refused for one of these is that refusal; nothing was listed yet.
REFUSALS: Final = frozenset({
    "validation", "not_found", "ambiguous", "type_mismatch", "permission_denied", "authentication_required", "capability_unavailable",
})  # fmt: skip


#: Faults that make the page itself suspect: its items are not counted.
UNCOUNTED: Final = frozenset({"snapshot_changed", "page_size_exceeded", "stalled_cursor", "cyclic_cursor", "duplicate_item"})
StopReason = Literal["max_pages", "max_items"]


class Ask(Struct, frozen=True, kw_only=True):
    """What is asked for. `query` holds query and filters; `limit` is the page size; `identity` names the items' id field."""

    tenant: str
    operation: str
    query: dict[str, Any]
    limit: int = 50
    all: bool = True
    max_pages: int = MAX_PAGES
    max_items: int = MAX_ITEMS
    continuation: str = ""
    identity: str = ""


class Seal(Struct, frozen=True):
    """How continuations are signed: a secret, the time now and how long they live (ms)."""

    key: bytes
    now_ms: int
    ttl_ms: int = 3_600_000


class Fetch(Struct, frozen=True):
    """Read one page: from `cursor` ("" = the first), at most `limit` items, at `snapshot` ("" = now)."""

    cursor: str
    limit: int
    snapshot: str


class Page(Struct, frozen=True):
    """What the service gave. `next` None = the end; `total` = its count of the whole scope at `snapshot`, None = not told."""

    items: tuple[Any, ...]
    next: str | None = None
    has_more: bool | None = None
    total: int | None = None
    snapshot: str = ""


class Covered(Struct, frozen=True):
    pages: int
    items: int


class Listing(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """`covered` counts the whole chain, `count` the items here; `requested` repeats the question."""

    contract_version: Literal["doc.list.v1"] = LIST
    status: Literal["success"] = "success"
    items: tuple[Any, ...]
    count: int
    complete: bool
    has_more: bool
    truncated: bool
    stop_reason: StopReason | None
    continuation: str | None
    covered: Covered
    requested: dict[str, Any]


class _Chain(Struct, frozen=True):
    """The payload of a continuation: who asked (`scope`), what (`query`), where it stands, until when (epoch ms)."""

    scope: str
    query: str
    snapshot: str = ""
    cursor: str = ""
    pages: int = 0
    items: int = 0
    until: int = 0


def _token(chain: _Chain, seal: Seal) -> str:
    body = msgspec.json.encode(msgspec.structs.replace(chain, until=seal.now_ms + seal.ttl_ms))
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in (body, hmac.digest(seal.key, body, "sha256")))


def _opened(token: str, key: bytes) -> _Chain | None:
    """The payload of a continuation we signed, else None."""
    try:
        body, mark = (base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in token.split("."))
    except ValueError:
        return None
    return msgspec.json.decode(body, type=_Chain) if hmac.compare_digest(mark, hmac.digest(key, body, "sha256")) else None


def walk(ask: Ask, seal: Seal) -> Generator[Fetch, Page | Problem, Listing]:
    """Drive the pages of one call. Raises ProblemError with exactly `details{contractVersion, status, complete, reason, page,
    nextCursor, count, items}`: `nextCursor` reads the page that broke again, where that can help.
    """
    chain = _start(ask, seal)
    items, cursors, ids, before = list[Any](), {chain.cursor}, set[str](), chain.pages
    while True:
        room = min(ask.limit, ask.max_items - len(items))
        page = yield Fetch(chain.cursor, room, chain.snapshot)
        again = _token(chain, seal) if chain.cursor else None
        if isinstance(page, Problem):
            if chain.pages == 0 and page.kind in REFUSALS:
                raise ProblemError(page)
            raise _broken("page_failed", ask, chain.pages + 1, items, again, page)
        after = _Chain(chain.scope, chain.query, page.snapshot, page.next or "", chain.pages + 1, chain.items + len(page.items))
        names = [str(item[ask.identity]) for item in page.items if is_object(item) and ask.identity in item]
        repeated = len(ids.union(names)) < len(ids) + len(names)
        reason = "duplicate_item" if repeated else _fault(page, chain, after, room, cursors)
        if reason not in UNCOUNTED:
            items += page.items
        if reason:
            raise _broken(reason, ask, after.pages, items, again if reason in UNCOUNTED else None)
        cursors.add(after.cursor)
        ids.update(names)
        chain = after
        stop = "max_items" if len(items) >= ask.max_items else "max_pages" if chain.pages - before >= ask.max_pages else None
        if not chain.cursor or stop or not ask.all:
            token = _token(chain, seal) if chain.cursor else None
            return _listing(ask, chain, items, page, stop if token and ask.all else None, token)


def _start(ask: Ask, seal: Seal) -> _Chain:
    fresh = _Chain(digest([ask.tenant, ask.operation]), digest(ask.query))
    if not ask.continuation:
        return fresh
    opened = _opened(ask.continuation, seal.key)
    chain = opened or fresh
    faults = {
        "tampered_cursor": opened is None, "foreign_cursor": chain.scope != fresh.scope, "changed_query": chain.query != fresh.query,
        "expired_cursor": seal.now_ms >= chain.until,
    }  # fmt: skip
    if reason := next((reason for reason, broken in faults.items() if broken), ""):
        raise _broken(reason, ask, chain.pages + 1, [], None)
    return chain


def _fault(page: Page, before: _Chain, after: _Chain, room: int, cursors: set[str]) -> str:
    """What is wrong with this page, "" = nothing; the first that matches."""
    end = page.next is None and not page.has_more
    total = after.items if page.total is None else page.total
    faults = {
        "snapshot_changed": before.pages > 0 and page.snapshot != before.snapshot,
        "page_size_exceeded": len(page.items) > room,
        "missing_cursor": not end and not page.next,
        "stalled_cursor": after.cursor == before.cursor and not end,
        "cyclic_cursor": after.cursor in cursors and not end,
        "count_mismatch": after.items != total if end else after.items > total,
    }
    return next((reason for reason, broken in faults.items() if broken), "")


def _broken(reason: str, ask: Ask, page: int, items: list[Any], cursor: str | None, cause: Problem | None = None) -> ProblemError:
    details = {
        "contractVersion": LIST, "status": "partial_success", "complete": False, "reason": reason, "page": page, "nextCursor": cursor,
        "count": len(items), "items": items,
    }  # fmt: skip
    return problem(
        KIND_BY_REASON[reason],
        f"the listing broke ({reason.replace('_', ' ')})" + (f": {cause.message}" if cause else ""),
        operation=ask.operation,
        stage="pagination",
        retryable=cause is not None and cause.retryable,
        retry_after_seconds=cause.retry_after_seconds if cause else None,
        details=details,
    )


def _listing(ask: Ask, chain: _Chain, items: list[Any], last: Page, stop: StopReason | None, token: str | None) -> Listing:
    in_one_state = chain.pages == 1 or chain.snapshot != ""
    return Listing(
        items=tuple(items), count=len(items), complete=token is None and last.total is not None and in_one_state, has_more=token is not None,
        truncated=stop is not None, stop_reason=stop, continuation=token, covered=Covered(chain.pages, chain.items),
        requested={**ask.query, "limit": ask.limit, "all": ask.all, "maxPages": ask.max_pages, "maxItems": ask.max_items},
    )  # fmt: skip
