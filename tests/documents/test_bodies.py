"""What a block may be: refused by its place before anything is written, whichever way it comes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from polyloop.contract.problem import ProblemError
from polyloop.documents import bodies, limits
from polyloop.documents import requests as ask
from polyloop.documents.http import respond
from polyloop.documents.service import serve
from tests.documents.office import Office


def _block(**more: Any) -> str:
    return json.dumps({"type": "paragraph", **more})


WIDE = {"rows": [[{"colspan": 10**9}]]}
#: What no block can be, and what the refusal names.
NO_BLOCKS: dict[str, tuple[str, str]] = {
    "level 99": (_block(type="heading", level=99), "blocks.1.level"), "level -5": (_block(type="heading", level=-5), "blocks.1.level"),
    "depth": (_block(depth=-1), "blocks.1.depth"), "span": (_block(type="table", table=WIDE), "blocks.1.table"),
    "no span": (_block(type="table", table={"rows": [[{"rowspan": 0}]]}), "blocks.1.table"),
    "NUL": (_block(runs=[{"text": "a\0b"}]), "blocks.1"), "NUL in a cell": (_block(table={"rows": [[{"runs": [{"text": "\0"}]}]]}), "blocks.1"),
    "large": (_block(runs=[{"text": "x" * limits.BLOCK_CHARS}]), "blocks.1"), "no block": ("{}", "blocks.1"),
}  # fmt: skip


@pytest.mark.parametrize("what", NO_BLOCKS)
@pytest.mark.parametrize("verb", ["create", "blocks", "change"])
def test_what_no_block_can_be_is_refused_by_its_place(office: Office, what: str, verb: str) -> None:
    node = office.new()
    held = office.db.look(lambda tx: serve(tx, office.tenant, ask.Content(node=node)))["blocks"][0][0]
    body, field = NO_BLOCKS[what]
    fine = _block(runs=[{"text": "\\u0000 is written so"}])
    request: dict[str, Any] = {
        "create": {"verb": "create", "node": "n_new", "title": "T", "blocks": [fine, body]},
        "blocks": {"verb": "edit", "node": node, "blocks": [fine, body]},
        "change": {"verb": "edit", "node": node, "blocks": [fine], "change": {held: body}},
    }[verb]
    before = office.everything()
    code, told = asyncio.run(respond(office.db, office.tenant, json.dumps({"request": request, "stepId": "s"}).encode()))
    assert (code, json.loads(told)["error"]["kind"]) == (400, "validation")
    assert field in [wrong["field"] for wrong in json.loads(told)["error"]["details"]["problems"]]
    assert office.everything() == before


def test_blocks_given_to_an_operation_have_the_same_limits(office: Office) -> None:
    for wrong in ({"type": "heading", "level": 99}, {"type": "table", "table": WIDE}, {"type": "paragraph", "depth": -1}):
        told = office.refused("validation", "create", {"title": "T", "format": "blocks", "content": [wrong]})
        assert told["details"]["field"].startswith("content.0")


def test_one_write_carries_no_more_than_its_limit() -> None:
    body = _block(runs=[{"text": "x" * (limits.BLOCK_CHARS - 100)}])
    bodies.check([body] * 4)
    with pytest.raises(ProblemError, match="one write"):
        bodies.check([body] * 5)
