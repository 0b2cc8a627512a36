"""Lists of documents for people: a table each, of all there is in any of its rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from polyloop.cli.docs_view import for_people, table
from polyloop.db import Database
from polyloop.documents.store import SCHEMAS
from tests.documents.office import Office


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    db = Database.open(tmp_path / "s.db", SCHEMAS)
    yield Office(db, folder=tmp_path)
    db.close()


def cells(office: Office, op: str, node: str) -> list[list[str]]:
    return [re.split(r" {2,}", line) for line in for_people("en", op, office.do(op, {"nodeId": node})).splitlines()]


def test_comments_show_where_they_stand_and_how_many_answers_they_have(office: Office) -> None:
    node = office.new("D", "one **bold** word\n")
    office.do("comment_create", {"nodeId": node, "content": "on all"})
    (general,) = cells(office, "comment_list", node)[1:]
    assert general[1:] == ["open", "on all"], "nothing is shown that no row has"
    placed = office.do("comment_create", {"nodeId": node, "content": "why\nbold?", "quote": "bold"}, user="")["data"]["commentId"]
    for _ in range(2):
        office.do("comment_reply", {"nodeId": node, "commentId": placed, "content": "so"})
    heads, _, row = cells(office, "comment_list", node)
    assert heads == ["commentId", "state", "author", "content", "anchor", "replies"]
    assert row == [placed, "open", "why bold?", "bold (kept)", "2"]


def test_roles_and_media_have_tables_too(office: Office, tmp_path: Path) -> None:
    (tmp_path / "长 name.txt").write_text("words")
    node = office.new()
    office.do("access_grant", {"nodeId": node, "user": "ann", "role": "EDITOR"})
    assert cells(office, "access_list", node) == [["user", "role"], ["ann", "EDITOR"]]
    put = office.do("media_insert", {"nodeId": node, "file": "长 name.txt"})["data"]
    heads, row = cells(office, "media_list", node)
    assert heads == ["resourceId", "type", "bytes", "name", "blockIds"]
    assert row == [put["resourceId"], "text/plain", "5", "长 name.txt", put["blockIds"][0]]


def test_rows_of_no_known_kind_show_every_field_of_any_of_them() -> None:
    assert table([{"a": 1}, {"a": 2, "b": [1, 2]}, {"c": []}]) == ["a  b", "1", "2  1 2", ""]


def test_where_nothing_is_found_nothing_is_said_of_runs() -> None:
    assert for_people("en", "search", {"items": [], "complete": True}) == "There is nothing to list."
