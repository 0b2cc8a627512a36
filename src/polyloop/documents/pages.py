"""Listings of the service, page by page: its replies as pages, and the walk of `contract.paging` over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from ..contract.paging import Ask as Listed
from ..contract.paging import Fetch, Listing, Page, Seal, walk
from ..contract.problem import ProblemError, problem
from . import requests as ask


class _PageReply(Struct, frozen=True, rename={"has_more": "hasMore"}):
    items: tuple[Any, ...]
    next: str | None = None
    has_more: bool | None = None
    total: int | None = None
    snapshot: str = ""


def page_of(reply: object) -> Page:
    """Raises invalid_response for what is no page."""
    try:
        return msgspec.convert(msgspec.convert(reply, _PageReply), Page, from_attributes=True)
    except msgspec.ValidationError as error:
        raise problem("invalid_response", f"the service gave no page: {error}", stage="pagination", execution_started=True) from error


def listing(send: Callable[[ask.Request], ask.Reply], listed: Listed, seal: Seal, request: Callable[[Fetch], ask.Request]) -> Listing:
    """Walk the pages. Raises ProblemError (pagination, validation) as `paging.walk`."""
    pages, told = walk(listed, seal), None
    while True:
        try:
            fetch = pages.send(told)  # type: ignore[arg-type]  # the first send is None, as generators want it
        except StopIteration as end:
            return end.value
        try:
            told = page_of(send(request(fetch)))
        except ProblemError as stop:
            told = stop.problem
