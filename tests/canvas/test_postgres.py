"""The same operations over PostgreSQL, so that no habit of SQLite creeps in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from polyloop.canvas.store import SCHEMAS
from polyloop.db import Database
from tests.canvas.easel import Easel, node
from tests.canvas.test_ops import *  # noqa: F403  # run here too
from tests.canvas.test_people import test_deleting_takes_connections_and_rows_along_and_undo_brings_all_back as test_delete  # noqa: F401
from tests.canvas.test_people import test_undo_goes_back_step_by_step_and_a_new_change_ends_redo as test_undo  # noqa: F401
from tests.canvas.test_reading import test_S1_32_a_canvas_changed_between_pages_is_a_conflict as test_pages  # noqa: F401

pytestmark = pytest.mark.needs("postgres")


@pytest.fixture(scope="module")
def db(url: str) -> Iterator[Database]:
    opened = Database.open(url, SCHEMAS)
    yield opened
    opened.close()


def test_text_no_server_can_keep_is_refused_as_an_argument(easel: Easel) -> None:
    for op in (node("a\0"), node("a", content="x\0y"), node("a", title="\0")):
        assert easel.wrong("canvas_apply_ops", {"snapshotHash": easel.hash, "ops": [op]}, session="")[0][1] == "format"
    assert easel.call("canvas_get_state", {}, within="cv\0")[0]["error"]["kind"] == "not_found"
    assert easel.call("canvas_apply_ops", {"snapshotHash": "\0", "ops": [node("a")]}, session="")[0]["error"]["details"]["issue"] == "format"
