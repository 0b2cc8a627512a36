"""Markdown: what is not touched keeps its bytes; what is written anew reads back as it was."""

# ruff: noqa: E501 - a row of a table is a line
from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from polyloop.formats import losses, read, write
from polyloop.formats.blocks import Block, Cell, Document, Run, Table, joined

CLEAN = sorted((Path(__file__).parents[1] / "audit" / "clean").glob("*.md"))
SIGNS = [
    "# ", "## 标题", "- ", "* ", "1. ", "2) ", "> ", "```\n", "~~~", "    ", "  ", "\t", "\n", "\n\n", "\r\n", "---\n", "***", "===\n", "|a|b|\n|-|-|\n", "|1|2|\n",
    "text", "中文，", "**粗**", "*x*", "`c`", "[a](b)", "![i](j.png)", "[r]: http://x\n", "[r]", "<div>\n", "<!-- c -->\n", "<br>", "$$\nx\n$$\n", "$", "\\", "&amp;",
    "- [ ] ", "- [x] ", "\ufeff", "[^1]: n\n", "___\n", "+ ", "10. ", "<b>", "~~s~~",
]  # fmt: skip
PIECES = st.lists(st.sampled_from(SIGNS), max_size=30).map("".join)
#: Without what says something about other places of the file: link definitions, the mark at its head.
CALM = st.lists(st.sampled_from([sign for sign in SIGNS if "]: " not in sign and sign != "\ufeff"]), max_size=20).map("".join)


def shape(document: Document) -> list[Block]:
    """Blocks without where they stood."""
    return [structs.replace(block, span=None, source=None, order=-1) for block in document.blocks]


def anew(document: Document) -> Document:
    """The same tree, no block of which claims its source."""
    return structs.replace(document, blocks=tuple(block.edited() for block in document.blocks))


@given(PIECES)
def test_an_unchanged_tree_gives_the_same_bytes(text: str) -> None:
    data = ("甲" + text).encode()
    document = read("a.md", data)
    assert write(document, "md") == data
    assert "".join(block.source or "" for block in document.blocks).encode() == data
    assert [block.order for block in document.blocks] == list(range(len(document.blocks)))


@pytest.mark.parametrize("path", CLEAN, ids=lambda path: path.name)
def test_whole_documents_come_back(path: Path) -> None:
    data = path.read_bytes()
    document = read(path.name, data)
    assert write(document, "md") == data
    assert shape(read(path.name, write(anew(document), "md"))) == shape(document)


TEXT = st.text(st.sampled_from("甲乙，。“”《》（）ab1 .-+*_~`[](){}<>#&|\\!$=:;\"'\t\n"), max_size=8)
RUNS = st.lists(
    st.builds(Run, TEXT, bold=st.booleans(), code=st.booleans(), italic=st.booleans(), strike=st.booleans(), link=st.sampled_from(["", "a b.md", "http://x/(y)?z=1&q"])), max_size=4
)  # fmt: skip


@given(RUNS)
def test_any_runs_are_spelled_so_that_they_read_back(runs: list[Run]) -> None:
    wanted = joined(runs)
    if not any(run.text.strip() for run in wanted):
        return
    for block in (Block("paragraph", wanted), Block("bulleted", wanted), Block("quote", wanted)):
        [found] = read("a.md", write(Document((block,), format="md"), "md")).blocks
        assert (found.type, found.runs) == (block.type, wanted)
    table = Table(((Cell(wanted), Cell((Run("头"),))), (Cell((Run("值"),)), Cell(wanted))), 1)
    [found] = read("a.md", write(Document((Block("table", table=table),)), "md")).blocks
    assert found.table == table


def tree() -> st.SearchStrategy[tuple[Block, ...]]:
    """Blocks nested as documents nest them: one deeper only under a container."""
    kinds = st.sampled_from(["heading", "paragraph", "bulleted", "numbered", "todo", "quote", "code", "divider", "formula", "table"])

    def build(drawn: list[tuple[str, int]]) -> tuple[Block, ...]:
        blocks: list[Block] = []
        room = 0
        for at, (kind, depth) in enumerate(drawn):
            runs = () if kind in ("divider", "table") else (Run(f"第{at}块 text"),)
            table = Table(((Cell((Run("头"),)),), (Cell((Run(str(at)),)),)), 1) if kind == "table" else None
            level, number = (1 + at % 6 if kind == "heading" else 0), (1 if kind == "numbered" else 0)
            blocks.append(Block(kind, runs, level=level, number=number, depth=min(depth, room), done=kind == "todo", table=table))  # type: ignore[arg-type]  # drawn from the types
            room = blocks[-1].depth + (kind in ("bulleted", "numbered", "todo", "quote"))
        return tuple(blocks)

    return st.lists(st.tuples(kinds, st.integers(0, 3)), min_size=1, max_size=8).map(build)


@given(tree())
def test_any_tree_is_spelled_so_that_it_reads_back(blocks: tuple[Block, ...]) -> None:
    document = Document((*blocks, Block("paragraph", (Run("end"),))))
    found = shape(read("a.md", write(document, "md")))
    assert [(block.type, block.text, block.depth, block.level, block.done) for block in found] == [
        (block.type, block.text, block.depth, block.level, block.done) for block in document.blocks
    ]


SOURCE = "# 标题\n正文*一*\n\n1.  甲\n2.  乙\n\n    子段\n\n> 引\n> 用\n>\n> 二\n\n|a|b|\n|-|:-:|\n|1|2|\n结束"


def edited(text: str, at: int, **changes: object) -> tuple[str, Document]:
    document = read("a.md", text.encode())
    blocks = list(document.blocks)
    blocks[at] = blocks[at].edited(**changes)
    out = structs.replace(document, blocks=tuple(blocks))
    return write(out, "md").decode(), out


def test_editing_one_block_keeps_the_bytes_of_all_others() -> None:
    kinds = [block.type for block in read("a.md", SOURCE.encode()).blocks]
    assert kinds == ["heading", "paragraph", "numbered", "numbered", "paragraph", "quote", "paragraph", "table"]
    for at in range(len(kinds)):
        changes = {} if kinds[at] == "table" else {"runs": (Run(f"改{at}"),)}
        text, document = edited(SOURCE, at, **changes)
        again = read("a.md", text.encode())
        assert [(block.type, block.text, block.depth) for block in again.blocks] == [
            (block.type, block.text, block.depth) for block in document.blocks
        ]
        for other in document.blocks:
            assert (other.source or "").strip("\n") in text


def test_a_block_taken_out_or_put_in_keeps_its_neighbours_apart() -> None:
    document = read("a.md", "甲\n\n乙\n\n丙".encode())
    first, middle, last = document.blocks
    assert write(structs.replace(document, blocks=(first, last)), "md").decode() == "甲\n\n丙"
    assert write(structs.replace(document, blocks=(last, first, middle)), "md").decode() == "丙\n\n甲\n\n乙\n\n"
    assert write(structs.replace(document, blocks=(first, Block("paragraph", (Run("新"),)), middle, last)), "md").decode() == "甲\n\n新\n\n乙\n\n丙"


def test_line_ends_of_the_file_are_used_for_what_is_new() -> None:
    text, _ = edited("a\r\n\r\nb\r\n", 0, runs=(Run("c"),))
    assert text == "c\r\n\r\nb\r\n"


BLOCKS = [
    ("---\ntitle: x\n---\n", [("raw", "---\ntitle: x\n---", "yaml")]),
    ("<div>\n中\n</div>\n", [("raw", "<div>\n中\n</div>", "html")]),
    ("text\n\n[a]: http://x\n", [("paragraph", "text", ""), ("raw", "[a]: http://x", "markdown")]),
    ("```py x\n1\n```\n", [("code", "1", "py x")]),
    ("    indented\n", [("code", "indented", "")]),
    ("$$\na^2\n$$\n", [("formula", "a^2", "")]),
    ("- [x] a\n- [ ] b\n", [("todo", "a", ""), ("todo", "b", "")]),
    ("![图](a b.png)\n", [("paragraph", "![图](a b.png)", "")]),
    ("![图](a.png)\n", [("image", "图", "")]),
    ('[表](t.xlsx "file")\n', [("file", "表", "")]),
    ("Title\n===\n", [("heading", "Title", "")]),
    ("a  \nb\\\nc\nd", [("paragraph", "a\nb\nc\nd", "")]),
    ("- # h\n", [("bulleted", "", ""), ("heading", "h", "")]),
    ("> " * 60 + "deep\n", [("raw", "> " * 60 + "deep", "markdown")]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "blocks"), BLOCKS, ids=[row[0][:12].strip() for row in BLOCKS])
def test_blocks(text: str, blocks: list[tuple[str, str, str]]) -> None:
    document = read("a.md", text.encode())
    assert [(block.type, block.text, block.info) for block in document.blocks] == blocks


def test_marks_and_links() -> None:
    [block] = read("a.md", '**粗***斜*~~删~~`码`<b>粗</b>[链 *x*](附件.md "t")<u>线</u>![p](q)'.encode()).blocks
    assert [(run.text, run.bold, run.italic, run.strike, run.code, run.link) for run in block.runs] == [
        ("粗", True, False, False, False, ""), ("斜", False, True, False, False, ""), ("删", False, False, True, False, ""),
        ("码", False, False, False, True, ""), ("粗", True, False, False, False, ""), ("链 ", False, False, False, False, "附件.md"),
        ("x", False, True, False, False, "附件.md"), ("<u>线</u>", False, False, False, False, ""), ("p", False, False, False, False, "q"),
    ]  # fmt: skip


def test_losses_are_named() -> None:
    document = read("a.md", b"x <u>a</u> ![p](q) y")
    assert {loss.code: loss.count for loss in document.losses} == {"inline_image": 1, "inline_html": 2}
    table = Table(((Cell((Run("a"),), colspan=2),), (Cell((Run("b"),)), Cell((Run("c"),)))))
    made = Document((Block("table", table=table), Block("heading", (Run("h"),), level=8), Block("numbered", (Run("n"),), number=1, label="(a)")))
    assert [loss.code for loss in losses(made, "md")] == ["heading_too_deep", "list_label", "merged_cells", "table_without_heads"]
    assert losses(read("a.md", b"# x\n"), "md") == ()


ANEW = [
    (Block("heading", (Run("总则"),), level=2, label="一、"), "## 一、总则\n"),
    (Block("paragraph", (Run("甲"),), label="第一条 "), "第一条 甲\n"),
    (Block("heading", (Run("a\nb", bold=True),), level=1), "# **a<br>b**\n"),
    (Block("code", (Run("```\nx\n```"),), info="md`"), "````md\n```\nx\n```\n````\n"),
    (Block("image", (Run("图 1"),), src="a b.png"), "![图 1](<a b.png>)\n"),
    (Block("file", (), src="t.xlsx"), '[t.xlsx](t.xlsx "file")\n'),
    (Block("todo", (), done=True), "- [x] \n"),
    (Block("numbered", (Run("1. x"),), number=12), "12. 1\\. x\n"),
    (Block("paragraph", (Run("重要", bold=True), Run("，"))), "**重要**，\n"),
    (Block("paragraph", (Run("见"), Run("“重要”", bold=True), Run("内容"))), "见<strong>“重要”</strong>内容\n"),
    (Block("paragraph", (Run("a`b", code=True),)), "``a`b``\n"),
    (Block("table", table=Table(((Cell((Run("a|b"),), colspan=2),), (Cell((Run("c\nd"),)), Cell())), 1, ("right", ""))), "| a\\|b |  |\n|--:|---|\n| c<br>d |  |\n"),
]  # fmt: skip


@pytest.mark.parametrize(("block", "text"), ANEW, ids=[row[1].strip()[:16] for row in ANEW])
def test_how_blocks_are_spelled(block: Block, text: str) -> None:
    assert write(Document((block,)), "md").decode() == text


def test_children_under_a_container_spelled_anew_move_with_it() -> None:
    source = "1. 甲\n\n   子\n\n   - 孙\n\n> 引\n>\n> 子\n"
    document = read("a.md", source.encode())
    blocks = list(document.blocks)
    blocks[0] = blocks[0].edited(number=100)
    blocks[3] = blocks[3].edited(runs=(Run("改"),))
    out = write(structs.replace(document, blocks=tuple(blocks)), "md")
    again = read("a.md", out)
    assert [(block.type, block.text, block.depth, block.number) for block in again.blocks] == [
        ("numbered", "甲", 0, 100), ("paragraph", "子", 1, 0), ("bulleted", "孙", 1, 0), ("quote", "改", 0, 0), ("paragraph", "子", 1, 0),
    ]  # fmt: skip
    assert "> 子\n" in out.decode()


def test_a_container_that_lost_its_first_line_is_spelled_with_its_child() -> None:
    document = read("a.md", "- # 甲\n\n  乙\n".encode())
    blocks = [document.blocks[0], document.blocks[1].edited(runs=(Run("新"),)), document.blocks[2]]
    out = write(structs.replace(document, blocks=tuple(blocks)), "md")
    assert [(block.type, block.text, block.depth) for block in read("a.md", out).blocks] == [
        ("bulleted", "", 0),
        ("heading", "新", 1),
        ("paragraph", "乙", 1),
    ]


@given(CALM, st.integers(0, 20))
def test_an_edit_anywhere_leaves_all_other_blocks_as_they_were(text: str, at: int) -> None:
    document = read("a.md", ("甲" + text).encode())
    at %= len(document.blocks)
    if document.blocks[at].type not in ("heading", "paragraph", "bulleted", "numbered", "todo", "quote"):
        return
    out, changed = edited("甲" + text, at, runs=(Run("改"),))
    found = read("a.md", out.encode()).blocks
    assert [(block.type, block.text, block.depth) for block in found] == [(block.type, block.text, block.depth) for block in changed.blocks]


@given(CALM, st.integers(0, 20), st.integers(0, 20))
def test_a_block_moved_or_taken_out_with_its_children_leaves_all_others_as_they_were(text: str, at: int, to: int) -> None:
    document = read("a.md", ("甲" + text).encode())
    blocks = list(document.blocks)
    tops = [place for place, block in enumerate(blocks) if block.depth == 0] + [len(blocks)]
    at, to = at % (len(tops) - 1), to % len(tops)
    subtree = blocks[tops[at] : tops[at + 1]]
    moved = blocks[: tops[to]] + subtree + blocks[tops[to] :] if to <= at else blocks
    start = tops[at] + (len(subtree) if to <= at else 0)
    changed = moved[:start] + moved[start + len(subtree) :]
    if not any(block.text.strip() for block in changed):
        return
    found = read("a.md", write(structs.replace(document, blocks=tuple(changed)), "md")).blocks
    assert [(block.type, block.text, block.depth) for block in found] == [(block.type, block.text, block.depth) for block in changed]
