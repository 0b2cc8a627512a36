"""Storyboards and batch tables, planned on a copy: what an edit does, what it refuses, what is read."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyloop.canvas import limits, rows, storyboard, table
from polyloop.canvas.model import Draft, Node, Row
from polyloop.contract.problem import ProblemError
from polyloop.contract.session import Session
from polyloop.testing.canvas import Shelf

PLOT = {"durationSeconds": 3, "plotDescription": "A door opens."}
NO_ROOM_NEEDED = (10, 20)


def node(node_id: str, kind: str, **more: Any) -> Node:
    return Node(id=node_id, type=kind, width=10, height=10, **more)


class Board(Shelf):
    """A canvas in memory with a storyboard `s`, a table `t`, and media."""

    def __init__(self) -> None:
        media = [node(f"i{n}", "image", body={"asset": {"id": f"a{n}"}}) for n in range(12)]
        super().__init__([node("s", "script"), node("t", "batch-table"), node("idle", "video"), node("text", "text"), *media])
        self.marks = itertools.count()

    def plan(self, what: Any, *args: Any) -> rows.Edited:
        """Carry out what is planned unless there are problems."""
        draft = Draft(self)
        found = what(draft, *args, f"op{next(self.marks)}")
        changes = draft.changes()
        if found.problems:
            assert changes == ()
        self.apply(changes)
        return found

    def shot(self, action: str, **more: Any) -> rows.Edited:
        own = self.node("s")
        assert own
        return self.plan(storyboard.edited, own, {"action": action, **more})

    def row(self, action: str, **more: Any) -> rows.Edited:
        own = self.node("t")
        assert own
        return self.plan(table.edited, own, {"action": action, **more})

    @property
    def table(self) -> Node:
        own = self.node("t")
        assert own
        return own


@pytest.fixture
def board() -> Board:
    return Board()


def wrong(found: rows.Edited) -> list[tuple[str, str]]:
    return [(p.field, p.issue) for p in found.problems]


# --- storyboard ------------------------------------------------------------------------------------------------------


def test_S1_57_S1_75_a_storyboard_is_rows_with_ids_and_numbers_the_server_makes(board: Board) -> None:
    draft = Draft(board)
    args = {"nodeId": "new", "title": "t", "rows": [PLOT, {**PLOT, "dialogue": "Hello."}]}
    found = storyboard.created(draft, args, "op", lambda *_: NO_ROOM_NEEDED)
    board.apply(draft.changes())
    made = board.node("new")
    assert made
    assert (made.type, made.title, (made.x, made.y), made.count) == ("script", "t", NO_ROOM_NEEDED, 2)
    told = [storyboard.shown(n, row) for n, row in enumerate(board.rows_of("new"))]
    assert [(t["shotNumber"], t["rowId"]) for t in told] == [(1, found.rows[0]), (2, found.rows[1])]
    assert told[1]["dialogue"] == "Hello."
    assert found.data["rows"] == [{"rowId": r, "shotNumber": n} for n, r in enumerate(found.rows, 1)]
    again = storyboard.created(Draft(board), args, "op", lambda *_: NO_ROOM_NEEDED)
    assert wrong(again) == [("nodeId", "duplicate")]


def test_S1_76_append_update_remove_and_shots_are_counted_anew(board: Board) -> None:
    ids = [board.shot("append", patch={**PLOT, "camera": f"c{n}"}).rows[0] for n in range(3)]
    assert len(set(ids)) == 3
    board.shot("update", rowId=ids[1], patch={"camera": "low", "dialogue": "No."})
    found = board.shot("remove", rowId=ids[0])
    assert found.data["summary"] == {"rowsRemoved": 1, "totalRows": 2}
    told = [storyboard.shown(n, row) for n, row in enumerate(board.rows_of("s"))]
    assert [(t["rowId"], t["shotNumber"], t["camera"]) for t in told] == [(ids[1], 1, "low"), (ids[2], 2, "c2")]
    assert told[0]["plotDescription"] == PLOT["plotDescription"]
    assert board.shot("append", patch=PLOT).data["shotNumber"] == 3
    assert wrong(board.shot("update", rowId=ids[0], patch={"camera": "x"})) == [("rowId", "not_found")]
    assert wrong(board.shot("remove", rowId="1")) == [("rowId", "not_found")]


TABLE = "Shots:\n| no | what |\n|----|:---:|\n| 1 | a door |"


@pytest.mark.parametrize(
    ("shot", "found"),
    [
        ({**PLOT, "plotDescription": TABLE}, [("patch.plotDescription", "not_structured")]),
        ({**PLOT, "timeBeats": "a | b\n--|--\nc | d"}, [("patch.timeBeats", "not_structured")]),
        ({**PLOT, "dialogue": "one -- two | three\n---"}, []),
        ({**PLOT, "plotDescription": " \n"}, [("patch.plotDescription", "empty")]),
        ({**PLOT, "plotDescription": " ", "videoMotionPrompt": "pan"}, []),
        ({**PLOT, "camera": "x" * 20_000, "motion": "y" * 4_000}, [("patch", "length")]),
        ({**PLOT, "assetBindings": [{"nodeId": "i1", "role": "prop"}]}, []),
        (
            {**PLOT, "assetBindings": [{"nodeId": n, "role": "prop"} for n in ("gone", "idle", "text")]},
            [("patch.assetBindings[0].nodeId", "not_found"), ("patch.assetBindings[1].nodeId", "not_ready"),
             ("patch.assetBindings[2].nodeId", "not_media")],
        ),
    ],
)  # fmt: skip
def test_S1_44_S1_75_what_no_shot_may_be(board: Board, shot: dict[str, Any], found: list[tuple[str, str]]) -> None:
    before = board.hashes
    assert wrong(board.shot("append", patch=shot)) == found
    assert (board.hashes == before) == bool(found)
    draft = Draft(board)
    many = storyboard.created(draft, {"nodeId": "new", "title": "t", "rows": [PLOT, shot]}, "op", lambda *_: (0, 0))
    assert wrong(many) == [(field.replace("patch", "rows[1]"), issue) for field, issue in found]


def test_an_update_is_judged_by_the_row_it_makes(board: Board) -> None:
    row = board.shot("append", patch={**PLOT, "camera": "x" * 20_000}).rows[0]
    assert wrong(board.shot("update", rowId=row, patch={"motion": "y" * 5_000})) == [("patch", "length")]
    assert wrong(board.shot("update", rowId=row, patch={"plotDescription": " "})) == [("patch.plotDescription", "empty")]
    assert wrong(board.shot("update", rowId=row, patch={"motion": "y" * 3_000})) == []


def test_a_locked_node_is_not_edited_and_rows_have_an_end(board: Board) -> None:
    board.items["node", "", "s"] = node("s", "script", locked=True)
    board.items["node", "", "t"] = node("t", "batch-table", locked=True)
    assert wrong(board.shot("append", patch=PLOT)) == wrong(board.row("append")) == [("nodeId", "locked")]
    full = Board()
    for n in range(limits.ROWS):
        full.items["row", "s", f"r{n}"] = Row(node="s", id=f"r{n}", place=n, body=PLOT)
        full.items["row", "t", f"r{n}"] = Row(node="t", id=f"r{n}", place=n, body={"enabled": True, "inputNodeIds": [], "prompt": ""})
    assert wrong(full.shot("append", patch=PLOT)) == wrong(full.row("append")) == [("action", "item_count")]


# --- batch table -----------------------------------------------------------------------------------------------------


def test_S1_77_a_new_row_takes_the_references_of_the_last_and_is_told(board: Board) -> None:
    board.row("append", patch={"inputNodeIds": ["i1", "i2"], "prompt": "p"})
    found = board.row("append")
    assert found.data["row"] == {"rowId": found.rows[0], "enabled": True, "inputNodeIds": ["i1", "i2"], "prompt": ""}
    board.row("update", rowId=found.rows[0], patch={"enabled": False, "prompt": "q"})
    told = table.told(board.table, board.rows_of("t"), board.node)
    preview = {"enabledRows": 1, "readyRows": 1, "missingPromptRows": 0, "missingReferenceRows": 0, "outputLinkedRows": 0}
    assert told["generationPreview"] == preview
    assert [table.shown(n, r)["prompt"] for n, r in enumerate(board.rows_of("t"))] == ["p", "q"]
    gone = board.row("remove", rowId=found.rows[0])
    assert (gone.data["summary"], gone.data["preview"][0]["prompt"]) == ({"rowsRemoved": 1, "totalRows": 1}, "q")
    assert wrong(board.row("remove", rowId=found.rows[0])) == [("rowId", "not_found")]


@pytest.mark.parametrize(
    ("patch", "found"),
    [
        ({"inputNodeIds": ["i1", "i2", "i3"]}, [("patch.inputNodeIds", "item_count")]),
        ({"inputNodeIds": ["idle", "gone"]}, [("patch.inputNodeIds[0]", "wrong_node_type"), ("patch.inputNodeIds[1]", "not_found")]),
        ({"prompt": "the coat of @参考图2 on @参考图1。"}, []),
        ({"prompt": "换上@参考图1的外套"}, []),
        ({"prompt": "write to a@b.example, 5 @ 3"}, []),
        ({"prompt": "@参考图3"}, [("patch.prompt", "unresolved")]),
        ({"prompt": "@参考图0"}, [("patch.prompt", "unresolved")]),
        ({"prompt": "@参考图01"}, [("patch.prompt", "unresolved")]),
        ({"prompt": "@参考图12"}, [("patch.prompt", "unresolved")]),
        ({"prompt": "@参考图"}, [("patch.prompt", "unresolved")]),
        ({"prompt": "with @somebody"}, [("patch.prompt", "unresolved")]),
        ({"prompt": "@参考图1 @图片2"}, [("patch.prompt", "unresolved")]),
        ({"prompt": "@参考图1@参考图2"}, []),
        ({"prompt": "@参考图1@参考图9"}, [("patch.prompt", "unresolved")]),
        ({"prompt": "use_x@参考图9"}, [("patch.prompt", "unresolved")]),
        ({"prompt": "图1@图片2"}, [("patch.prompt", "unresolved")]),
    ],
)
def test_S1_26_S1_77_inputs_and_mentions_resolve_or_nothing_is_written(board: Board, patch: dict[str, Any], found: list[tuple[str, str]]) -> None:
    row = board.row("append").rows[0]
    before = board.hashes
    assert wrong(board.row("update", rowId=row, patch=patch)) == found
    assert (board.hashes == before) == bool(found)
    if "prompt" in patch:
        expected = [("globalPrompt", issue) for _, issue in found]
        assert wrong(board.row("set_global_prompt", globalPrompt=patch["prompt"])) == expected


def test_the_settings_of_a_table(board: Board) -> None:
    board.row("set_operation", operation="creative")
    board.row("set_concurrency", concurrency=5)
    board.row("set_global_prompt", globalPrompt="all of @参考图1")
    told = table.told(board.table, board.rows_of("t"), board.node)
    assert (told["operation"], told["concurrency"], told["globalPrompt"]) == ("creative", 5, "all of @参考图1")
    assert [c["mentionToken"] for c in told["referenceColumns"]] == ["@参考图1", "@参考图2"]
    board.row("set_global_prompt", globalPrompt="")
    assert table.told(board.table, [], board.node)["globalPrompt"] == ""


def test_columns_come_and_go_at_the_end_and_never_take_anything_with_them(board: Board) -> None:
    for count in range(3, 11):
        assert len(board.row("add_reference_column").data["referenceColumns"]) == count
    assert wrong(board.row("add_reference_column")) == [("action", "item_count")]
    row = board.row("append", patch={"inputNodeIds": [f"i{n}" for n in range(10)]}).rows[0]
    assert wrong(board.row("remove_reference_column")) == [("action", "in_use")]
    board.row("update", rowId=row, patch={"inputNodeIds": ["i1"], "prompt": "@参考图10"})
    assert wrong(board.row("remove_reference_column")) == [("action", "in_use")]
    board.row("update", rowId=row, patch={"prompt": "@参考图1"})
    board.row("set_global_prompt", globalPrompt="@参考图10")
    assert wrong(board.row("remove_reference_column")) == [("action", "in_use")]
    board.row("set_global_prompt", globalPrompt="")
    for count in range(9, 0, -1):
        assert len(board.row("remove_reference_column").data["referenceColumns"]) == count
    assert wrong(board.row("remove_reference_column")) == [("action", "item_count")]


def test_what_is_ready(board: Board) -> None:
    def row(n: int, **body: Any) -> Row:
        return Row(node="t", id=f"r{n}", place=n, body={"enabled": True, "inputNodeIds": ["i1"], "prompt": "p", **body})

    all_rows = [
        row(1),
        row(2, prompt=" "),
        row(3, inputNodeIds=[]),
        row(4, enabled=False),
        row(5, outputNodeId="o"),
        row(6, inputNodeIds=["i1", "i2"]),
        row(7, inputNodeIds=["i1", "no longer there"]),
    ]
    own = node("t", "batch-table", body={"operation": "creative"})
    assert table.told(own, all_rows, board.node)["generationPreview"] == {
        "enabledRows": 6, "readyRows": 3, "missingPromptRows": 1, "missingReferenceRows": 2, "outputLinkedRows": 1,
    }  # fmt: skip
    both = node("t", "batch-table", body={"operation": "try_on", "globalPrompt": "g"})
    assert table.told(both, all_rows, board.node)["generationPreview"] == {
        "enabledRows": 6, "readyRows": 1, "missingPromptRows": 0, "missingReferenceRows": 5, "outputLinkedRows": 1,
    }  # fmt: skip


# --- pages and order -------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 30_000), max_size=30), st.integers(1, 20))
def test_S1_62_pages_cover_every_row_once_and_always_go_on(sizes: list[int], count: int) -> None:
    all_rows = [Row(node="s", id=f"r{n}", place=n, body={"dialogue": "x" * size}) for n, size in enumerate(sizes)]
    offset, seen = 0, list[str]()
    while True:
        told = rows.page(all_rows, offset, count, storyboard.shown)
        seen += [row["rowId"] for row in told["rows"]]
        assert told["range"] == {"offset": offset, "count": len(told["rows"]), "total": len(sizes)}
        assert told["hasMore"] == (told["nextOffset"] is not None)
        if not told["hasMore"]:
            break
        assert told["nextOffset"] > offset
        offset = told["nextOffset"]
    assert seen == [row.id for row in all_rows]


def test_an_offset_behind_the_end_is_refused() -> None:
    with pytest.raises(ProblemError) as stop:
        rows.page([], 1, 20, storyboard.shown)
    assert (stop.value.problem.kind, stop.value.problem.details["field"]) == ("validation", "offset")


class Reader:
    """A session that reads and edits the storyboard of a board by the rules of order."""

    def __init__(self, board: Board, *, lasting: bool = True) -> None:
        self.board, self.session = board, Session("auto", lasting=lasting)

    def read(self, offset: int = 0, count: int = 20) -> dict[str, Any]:
        own, all_rows = self.own, self.board.rows_of("s")
        assert rows.check_offset(self.session, own, "offset", offset) == []
        chars = 0 if count == 1 else limits.PAGE_CHARS
        told = rows.page(all_rows, offset, count, lambda n, row: storyboard.shown(n, row, chars))
        self.session.note(*rows.read_facts(own, all_rows, told))
        return told

    @property
    def own(self) -> Node:
        own = self.board.node("s")
        assert own
        return own

    def edit(self, action: str, **more: Any) -> list[tuple[str, str]]:
        was, before = self.own, self.board.rows_of("s")
        args = {"action": action, **more}
        found = [*rows.check_row(self.session, was, args), *self.session.unread(rows.needs(was, before, args))]
        if not found:
            done = self.board.shot(action, **more)
            found = [*done.problems]
            self.session.note(*rows.write_facts(self.session, was.hash, self.own, self.board.rows_of("s"), done.rows))
        return [(p.field, p.issue) for p in found]


def filled(count: int) -> tuple[Board, list[str]]:
    board = Board()
    return board, [board.shot("append", patch={**PLOT, "camera": f"c{n}"}).rows[0] for n in range(count)]


def test_S1_33_S1_54_a_row_is_read_whole_before_it_is_changed_and_the_end_before_rows_are_added() -> None:
    board, ids = filled(3)
    reader = Reader(board)
    assert reader.edit("update", rowId=ids[0], patch={"camera": "x"}) == [("rowId", "not_issued"), ("rowId", "read_first")]
    assert reader.edit("append", patch=PLOT) == [("action", "read_first")]
    reader.read(0, 2)
    assert reader.edit("append", patch=PLOT) == [("action", "read_first")]
    assert reader.edit("update", rowId=ids[2], patch={"camera": "x"}) == [("rowId", "not_issued"), ("rowId", "read_first")]
    assert reader.edit("update", rowId=ids[0], patch={"camera": "x"}) == []
    reader.read(0, 2)
    reader.read(2, 2)
    assert reader.edit("append", patch=PLOT) == []
    assert reader.edit("update", rowId=ids[2], patch={"camera": "y"}) == []
    assert reader.edit("remove", rowId=board.rows_of("s")[3].id) == []


def test_S1_33_a_row_that_was_cut_is_not_a_row_that_was_read() -> None:
    board, ids = filled(2)
    board.shot("update", rowId=ids[0], patch={"dialogue": "x" * 2_001})
    reader = Reader(board)
    assert reader.read()["rows"][0]["truncated"] == ["dialogue"]
    assert reader.edit("remove", rowId=ids[0]) == [("rowId", "read_first")]
    assert "truncated" not in reader.read(0, 1)["rows"][0]
    assert reader.edit("remove", rowId=ids[0]) == []


def test_S1_26_rows_of_older_reads_are_refused_but_own_writes_go_on() -> None:
    board, ids = filled(4)
    reader, other = Reader(board), Reader(board)
    reader.read()
    other.read()
    for n in range(3):
        assert reader.edit("update", rowId=ids[n], patch={"camera": f"n{n}"}) == []
    assert reader.edit("append", patch=PLOT) == []
    assert other.edit("update", rowId=ids[3], patch={"camera": "z"}) == [("rowId", "not_issued")]
    other.read(0, 2)
    assert other.edit("update", rowId=ids[3], patch={"camera": "z"}) == [("rowId", "not_issued")]
    assert other.edit("update", rowId=ids[1], patch={"camera": "z"}) == []
    assert other.edit("append", patch=PLOT) == [("action", "read_first")]


def test_S1_32_page_numbers_are_no_offsets_and_a_change_between_pages_is_a_conflict() -> None:
    board, ids = filled(5)
    reader = Reader(board)
    reader.read(0, 2)
    own = reader.own
    assert [p.issue for p in rows.check_offset(reader.session, own, "offset", 1)] == ["not_issued"]
    assert rows.check_offset(reader.session, own, "offset", 2) == []
    board.shot("remove", rowId=ids[0])
    with pytest.raises(ProblemError) as stop:
        rows.check_offset(reader.session, reader.own, "offset", 2)
    assert stop.value.problem.kind == "revision_conflict"
    assert rows.check_offset(Session("auto", lasting=False), own, "offset", 1) == []


def test_only_a_structured_node_of_the_right_kind_has_rows(board: Board) -> None:
    draft = Draft(board)
    assert rows.structured(draft, "s", "script").id == "s"
    for node_id, kind in (("gone", "not_found"), ("t", "type_mismatch")):
        with pytest.raises(ProblemError) as stop:
            rows.structured(draft, node_id, "script")
        assert stop.value.problem.kind == kind
