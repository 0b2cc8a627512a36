"""A canvas as files: whole, the same every time, and safe whatever stands on it."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import sys
import zipfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyloop.canvas.board import Board as Look
from polyloop.canvas.board import By
from polyloop.canvas.model import Draft, Node, Row
from polyloop.canvas.store import SCHEMAS, find_canvas
from polyloop.canvas.storyboard import TEXTS
from polyloop.contract.problem import ProblemError
from polyloop.db import Database, Tx
from polyloop.formats.markdown_in import read_markdown
from polyloop.media.store import SCHEMAS as MEDIA
from polyloop.media.store import add_asset
from polyloop.media.verify import Facts
from polyloop.views.canvas import forms
from polyloop.views.canvas.board import Asset, Board, body_text, plain
from polyloop.views.canvas.bundle import MANIFEST
from polyloop.views.canvas.forms import FORMS, WHOLE, given_out, whole
from polyloop.views.canvas.jsoncanvas import json_canvas
from polyloop.views.canvas.page import page
from polyloop.views.canvas.picture import SIDE_PX, png, svg
from polyloop.views.canvas.scene import MARGIN, TEXT_SIZE, Line, broken, scene, width_of
from polyloop.views.canvas.sheets import storyboard_csv, storyboard_markdown, table_markdown
from tests.canvas.easel import Easel, edge
from tests.canvas.easel import node as item
from tests.views.boards import ATTACKS, BOARDS, hostile, node, sample


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("form", sorted(WHOLE.keys() - {"png"}))
def test_the_same_board_gives_the_same_bytes(board: str, form: str) -> None:
    once = WHOLE[form](BOARDS[board](), "zh")
    assert once == WHOLE[form](BOARDS[board](), "zh")
    assert form == "zip" or once.decode()


# --- JSON Canvas -----------------------------------------------------------------------------------------------------

#: JSON Canvas 1.0: what a node of each type must and may have beside its box.
FORMAT = {
    "text": ({"text"}, set()),
    "file": ({"file"}, {"subpath"}),
    "link": ({"url"}, set()),
    "group": (set(), {"label", "background", "backgroundStyle"}),
}
BOX = {"id", "type", "x", "y", "width", "height"}
EDGE = {"id", "fromNode", "fromSide", "fromEnd", "toNode", "toSide", "toEnd", "color", "label"}


@pytest.mark.parametrize("board", BOARDS)
def test_json_canvas_keeps_the_format(board: str) -> None:
    own = BOARDS[board]()
    told = json.loads(json_canvas(own, "en"))
    assert told.keys() == {"nodes", "edges"}
    for one in told["nodes"]:
        must, may = FORMAT[one["type"]]
        assert BOX | must <= one.keys() <= BOX | must | may | {"color"}
        assert all(type(one[name]) is int for name in ("x", "y", "width", "height"))
    ids = {one["id"] for one in told["nodes"]}
    assert len(told["nodes"]) == len(own.nodes)
    assert all(edge.keys() <= EDGE and {edge["fromNode"], edge["toNode"]} <= ids for edge in told["edges"])
    types = [one["type"] for one in told["nodes"]]
    assert types == sorted(types, key=lambda t: t != "group")  # groups lie at the back


def test_json_canvas_carries_what_nodes_say() -> None:
    told = {one["id"]: one for one in json.loads(json_canvas(sample(), "en"))["nodes"]}
    assert told["frame"] == {"id": "frame", "type": "group", "x": 480, "y": -80, "width": 800, "height": 520, "label": "References"}
    assert "三十秒短片" in told["brief"]["text"]
    assert "The watch ticks backwards" in told["shots"]["text"]
    assert "character: hero" in told["shots"]["text"]
    picture = next(one for one in json.loads(json_canvas(hostile(), "en"))["nodes"] if one["type"] == "file")
    assert picture["file"] == f"assets/{hashlib.sha256(b'not really a picture').hexdigest()}.png"


# --- pages and pictures ----------------------------------------------------------------------------------------------

TAGS = {
    "html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "small", "figure", "section", "p", "table", "thead", "tbody", "tr", "th",
    "td", "ul", "li", "code", "svg", "defs", "marker", "path", "rect", "text", "image",
}  # fmt: skip
ATTRIBUTES = {
    "lang", "charset", "http-equiv", "content", "name", "xmlns", "viewbox", "width", "height", "font-family", "role", "aria-label", "id", "refx",
    "refy", "markerwidth", "markerheight", "orient", "d", "fill", "x", "y", "rx", "stroke", "stroke-width", "marker-end", "font-size",
    "font-weight", "xml:space", "href",
}  # fmt: skip


class Seen(HTMLParser):
    """Every tag and attribute a browser would see, and all text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: dict[str, set[str]] = {}
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, set()).add(value or "")

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.mark.parametrize("board", BOARDS)
def test_a_page_runs_nothing_loads_nothing_and_says_everything(board: str) -> None:
    own, seen = BOARDS[board](), Seen()
    seen.feed(page(own, "zh").decode())
    assert seen.tags <= TAGS
    assert seen.attributes.keys() <= ATTRIBUTES
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in seen.attributes["content"]
    assert seen.attributes.get("marker-end", set()) <= {"url(#head)"}
    assert all(value.startswith("data:image/png;base64,") for value in seen.attributes.get("href", set()))
    text = "".join(seen.text)
    texts = [body_text(n) for n in own.nodes] + [str(v) for rows in own.rows.values() for r in rows for v in r.body.values() if isinstance(v, str)]
    assert [t for t in texts if plain(t) not in text] == []
    assert own.snapshot_hash in text


@pytest.mark.parametrize("board", BOARDS)
def test_a_picture_is_well_formed_and_shows_every_node(board: str) -> None:
    own = BOARDS[board]()
    root = ET.fromstring(svg(own))  # our own output
    names = {one.tag.rpartition("}")[2] for one in root.iter()}
    assert names <= {"svg", "defs", "marker", "path", "rect", "text", "image"}
    assert {a.rpartition("}")[2].lower() for one in root.iter() for a in one.attrib} <= ATTRIBUTES | {"space"}
    boxes = {
        (float(r.get("x", 0)), float(r.get("y", 0)), float(r.get("width", 0)), float(r.get("height", 0)))
        for r in root.iter()
        if r.tag.endswith("rect")
    }
    assert {(n.x, n.y, n.width, n.height) for n in own.nodes} <= boxes
    assert len([p for p in root.iter() if p.get("marker-end")]) == len(own.edges)


@given(st.text(max_size=300), st.integers(20, 600), st.integers(0, 12))
def test_lines_fit_and_nothing_is_lost_where_there_is_room(text: str, width: int, room: int) -> None:
    lines = broken(text, width, TEXT_SIZE, room)
    assert len(lines) <= room
    assert all(width_of(line, TEXT_SIZE) <= width or len(line) <= 2 for line in lines)
    wide = broken(text, width, TEXT_SIZE, 1_000)
    assert "".join("".join(wide).split()) == "".join(plain(text).split())
    assert [w for w in wide if not w] == []


def test_words_are_kept_whole_and_ideographs_broken_anywhere() -> None:
    assert broken("one two three", 70, 16, 9) == ["one two", "three"]
    assert broken("门铃响雨里没有人", 50, 16, 9) == ["门铃响", "雨里没", "有人"]
    assert broken("abcdefghijklmnop", 50, 16, 2)[-1].endswith("…")


@pytest.mark.needs("media")
def test_the_picture_in_points_shows_the_same() -> None:
    from PIL import Image

    own = sample()
    image = Image.open(io.BytesIO(png(own))).convert("RGB")
    view = scene(own)
    assert image.size == (view.width, view.height)
    for one in own.nodes:  # ink in every node: more than its own two colours
        box = (one.x - view.x, one.y - view.y, one.x - view.x + one.width, one.y - view.y + one.height)
        assert len(image.crop(box).getcolors(1 << 24) or []) > 10, one.id
    glyphs = [png(Board(canvas_id="c", title="", snapshot_hash="", nodes=[node("n", "text", 0, 0, 200, 100, title=c)], edges=[])) for c in "修表"]
    assert glyphs[0] != glyphs[1]  # no empty boxes in place of ideographs


@pytest.mark.needs("media")
def test_a_large_canvas_is_drawn_smaller() -> None:
    from PIL import Image

    far = [node("a", "text", -900_000, 0, 340, 240, title="a"), node("b", "text", 900_000, 0, 340, 240, title="b")]
    image = Image.open(io.BytesIO(png(Board(canvas_id="c", title="", snapshot_hash="", nodes=far, edges=[]))))
    assert max(image.size) == SIDE_PX


def test_an_arc_joins_the_sides_of_its_nodes_and_a_frame_lies_behind() -> None:
    own = sample()
    view = scene(own)
    assert (view.x, view.y) == (-MARGIN, -80 - MARGIN)
    titles = [mark.text for mark in view.marks if isinstance(mark, Line) and mark.bold]
    assert titles[0] == "References"
    assert set(titles) == {n.title for n in own.nodes}


# --- storyboard as Markdown and CSV ----------------------------------------------------------------------------------


def shots(*texts: str) -> tuple[Node, list[Row]]:
    rows = [Row(node="s", id=f"row_{n}", place=n, body={"durationSeconds": n + 0.5, **dict.fromkeys(TEXTS, text)}) for n, text in enumerate(texts)]
    return node("s", "script", 0, 0, 10, 10, title="t"), rows


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(ATTACKS), max_size=6))
def test_no_cell_of_a_sheet_is_a_formula_and_every_text_is_there(texts: list[str]) -> None:
    lines = list(csv.reader(io.StringIO(storyboard_csv(*shots(*texts)).decode("utf-8-sig"), newline="")))
    assert lines[0][:3] == ["shotNumber", "durationSeconds", "plotDescription"]
    assert [line[0] for line in lines[1:]] == [str(n) for n in range(1, len(texts) + 1)]
    for text, line in zip(texts, lines[1:], strict=True):
        for cell in line[2:18]:
            assert cell.removeprefix("'") == plain(text).removeprefix("'")
            assert not cell.lstrip().startswith(("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"))
            assert not cell.startswith(("\t", "\r", "\n"))


@pytest.mark.parametrize("begin", ["", " ", "\u200b", "\u2060", "\xad", "\u200e", "\ufeff ", "\u3000", "\xa0\u200b"])
@pytest.mark.parametrize("sign", [*"=+-@", *"\uff1d\uff0b\uff0d\uff20", *"\ufe66\ufe62\ufe63\ufe6b", "\u2212"])
def test_marks_without_a_width_hide_no_formula(begin: str, sign: str) -> None:
    cell = list(csv.reader(io.StringIO(storyboard_csv(*shots(f"{begin}{sign}1")).decode("utf-8-sig"), newline="")))[1][2]
    assert cell.startswith("'")


def test_a_title_stays_one_heading_and_a_text_that_shows_nothing_makes_no_line() -> None:
    assert "**" not in storyboard_markdown(*shots("\ufffe \uffff"), "en")
    title = "a\n\n<script>x</script>\n- [l](javascript:x) \u202egnp"
    own = Board(canvas_id="cv_0", title="", snapshot_hash="canvas:1", nodes=[node("t", "text", 0, 0, 9, 9, title=title)], edges=[])
    text = json.loads(json_canvas(own, "en"))["nodes"][0]["text"]
    found = read_markdown("x.md", text.encode()).blocks
    assert [(b.type, b.text) for b in found] == [("heading", "a <script>x</script> - [l](javascript:x) gnp")]


def test_numbers_stay_numbers() -> None:
    line = list(csv.reader(io.StringIO(storyboard_csv(*shots("x")).decode("utf-8-sig"))))[1]
    assert line[:2] == ["1", "0.5"]


@pytest.mark.parametrize(("value", "told"), [(5, "5"), (5.0, "5"), (12345.678, "12345.678"), (86400, "86400"), (0.1234567, "0.1234567")])
def test_a_length_is_told_in_full(value: float, told: str) -> None:
    own = node("s", "script", 0, 0, 900, 400)
    rows = [Row(node="s", id="r", place=0, body={"durationSeconds": value, "plotDescription": "x"})]
    board = Board(canvas_id="c", title="", snapshot_hash="h", nodes=[own], edges=[], rows={"s": rows})
    assert list(csv.reader(io.StringIO(storyboard_csv(own, rows).decode("utf-8-sig"))))[1][1] == told
    assert f" {told} s" in storyboard_markdown(own, rows, "en")
    assert f"<td>{told}</td>" in page(board, "en").decode()
    assert f" {told} s" in svg(board).decode()


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_markdown_reads_back_as_what_was_said(lang: Any) -> None:
    own, rows = shots(*ATTACKS, "第一行\n第二行")
    found = read_markdown("x.md", storyboard_markdown(own, rows, lang).encode())
    assert [b.level for b in found.blocks if b.type == "heading"] == [1, *[2] * len(rows)]
    items = [b.text for b in found.blocks if b.type == "bulleted"]
    assert len(items) == len(TEXTS) * len(rows)
    wanted = [" ".join(plain(text).split()) for text in (*ATTACKS, "第一行\n第二行") for _ in TEXTS]
    assert [" ".join(item.partition(": ")[2].split()) for item in items] == wanted


def test_a_table_reads_back_as_a_table() -> None:
    own = hostile()
    plan = next(n for n in own.nodes if n.type == "batch-table")
    found = read_markdown("x.md", table_markdown(plan, own.rows[plan.id], "en").encode())
    grid = next(b.table for b in found.blocks if b.table)
    assert [len(row) for row in grid.rows] == [5] * (len(ATTACKS) + 1)
    assert [row[3].text for row in grid.rows[1:]] == [" ".join(plain(a).split()) for a in ATTACKS]


@pytest.mark.parametrize(("width", "height", "seen"), [(8, 300, False), (400, 40, False), (9, 41, True), (1, 1, False)])
def test_a_picture_is_drawn_only_where_it_has_room(width: int, height: int, seen: bool) -> None:
    own = node("a", "image", 0, 0, width, height)
    asset = Asset("0" * 64, "image/png", b"x")
    drawn = svg(Board(canvas_id="c", title="", snapshot_hash="h", nodes=[own], edges=[], assets={"a": asset})).decode()
    assert ("<image" in drawn, '="-' in drawn.partition("<image")[2]) == (seen, False)


# --- from a store ----------------------------------------------------------------------------------------------------


def test_a_stored_canvas_is_given_out_whole(tmp_path: Path) -> None:
    db = Database.open(tmp_path / "store.db", SCHEMAS)
    try:
        _given_out_whole(Easel(db).ready())
    finally:
        db.close()


def _given_out_whole(easel: Easel) -> None:
    easel.apply(item("a", title="A", content="hello"), item("t", "batch-table"), item("i", "image"), edge("e", "a", "i"))
    row = {"durationSeconds": 2, "plotDescription": "A door opens."}
    easel.do("canvas_create_storyboard", {"snapshotHash": easel.hash, "nodeId": "s", "title": "Shots", "rows": [row]})
    own = easel.db.look(lambda tx: whole(tx, easel.tenant, "local", easel.canvas))
    assert ({n.id for n in own.nodes}, [e.id for e in own.edges], own.snapshot_hash) == ({"a", "t", "i", "s"}, ["e"], easel.hash)
    told = json.loads(given_out(own, "json", "en"))
    assert [n["rows"][0]["plotDescription"] for n in told["nodes"] if n["id"] == "s"] == ["A door opens."]
    for form in set(FORMS) - {"png"}:
        assert given_out(own, form, "zh", "s" if form in ("csv", "markdown") else "")
    assert b"A door opens." in given_out(own, "csv", "en", "s")
    for tenant, owner, canvas in ((easel.tenant, "bob", easel.canvas), ("other", "local", easel.canvas), (easel.tenant, "local", "cv_0")):
        with pytest.raises(ProblemError) as stop:
            easel.db.look(lambda tx, t=tenant, o=owner, c=canvas: whole(tx, t, o, c))
        assert stop.value.problem.kind == "not_found"


@pytest.fixture
def pictured(tmp_path: Path) -> Iterator[Easel]:
    """A canvas with a node that has a file: half red, half blue."""
    from PIL import Image

    out = io.BytesIO()
    image = Image.new("RGB", (40, 20), "red")
    image.paste("blue", (20, 0, 40, 20))
    image.save(out, "PNG")
    db = Database.open(tmp_path / "store.db", (*SCHEMAS, *(s for s in MEDIA if s not in SCHEMAS)))
    easel = Easel(db).ready()

    def put(tx: Tx) -> None:
        look = Look(tx, easel.tenant, find_canvas(tx, easel.tenant, easel.owner, easel.canvas))
        data = out.getvalue()
        facts = Facts(sha256=hashlib.sha256(data).hexdigest(), mime_type="image/png", bytes=len(data), width=40, height=20)
        asset = add_asset(tx, easel.tenant, data, facts, synthetic=True)
        draft = Draft(look)
        draft.put(node("i", "image", 0, 0, 400, 240, title="Half", body={"asset": asset.body}))
        look.write(draft.changes(), By())

    db.write_sync(put)
    yield easel
    db.close()


def taken(easel: Easel, form: str) -> bytes:
    return given_out(easel.db.look(lambda tx: whole(tx, easel.tenant, "local", easel.canvas, form)), form, "en")


@pytest.mark.needs("media")
def test_files_of_nodes_are_shown_and_bundled(pictured: Easel) -> None:
    from PIL import Image

    for form in ("svg", "html"):
        assert b'href="data:image/png;base64,' in taken(pictured, form)
    image = Image.open(io.BytesIO(taken(pictured, "png"))).convert("RGB")
    colours = {colour for _, colour in image.getcolors(1 << 24) or []}
    assert {(255, 0, 0), (0, 0, 255)} <= colours
    with zipfile.ZipFile(io.BytesIO(taken(pictured, "zip"))) as archive:
        file = next(one for one in json.loads(archive.read(MANIFEST))["files"] if one["path"].startswith("assets/"))
        assert (file["nodeIds"], file["mimeType"], hashlib.sha256(archive.read(file["path"])).hexdigest()) == (["i"], "image/png", file["sha256"])
        assert file["sha256"] in file["path"]
        assert json.loads(archive.read("board.canvas"))["nodes"][0]["file"] == file["path"]
    assert b"base64" not in taken(pictured, "json")


@pytest.mark.needs("media")
def test_files_too_large_together_are_refused_before_they_are_read(pictured: Easel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "FILES_BYTES", 10)
    with pytest.raises(ProblemError) as stop:
        taken(pictured, "zip")
    assert (stop.value.problem.kind, stop.value.problem.details["issue"]) == ("validation", "too_large")
    assert taken(pictured, "json")


def test_a_file_that_cannot_be_drawn_leaves_its_place_empty() -> None:
    """Whatever stands behind a name, drawing goes on."""
    pytest.importorskip("PIL")
    assert png(hostile()).startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("form", "node_id", "kind", "field"),
    [
        ("doc", "", "validation", "format"), ("html", "shots", "validation", "node"), ("csv", "", "validation", "node"),
        ("csv", "none", "not_found", "nodeId"), ("csv", "plan", "type_mismatch", "nodeId"), ("markdown", "brief", "type_mismatch", "nodeId"),
    ],
)  # fmt: skip
def test_what_cannot_be_given_out_is_named(form: str, node_id: str, kind: str, field: str) -> None:
    with pytest.raises(ProblemError) as stop:
        given_out(sample(), form, "zh", node_id)
    assert stop.value.problem.kind == kind
    assert field in (stop.value.problem.details.get("field"), *stop.value.problem.details)


def test_a_picture_in_points_without_its_library_says_which_extra_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ProblemError) as stop:
        given_out(sample(), "png", "zh")
    assert (stop.value.problem.kind, stop.value.problem.details) == ("capability_unavailable", {"extra": "media"})
    assert given_out(sample(), "zip", "zh")
