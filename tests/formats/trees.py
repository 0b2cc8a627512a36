"""Documents drawn at random, of what every written format can carry: types, levels, marks, tables, nested lists."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from msgspec import structs

from polyloop.formats.blocks import BLOCK_TYPES, Block, Cell, Document, Run, Table, joined

WORDS = (
    st.text("abcXYZ019,.;:!?()<>&\"'-_*[]\\#|~$`=+/@{}%^一二三四五六七八九十审计通知采购，。；：！？（）《》“”", min_size=1, max_size=12)
    .map(str.strip)
    .filter(bool)
)
#: Text that no reader could take for a mark of its own: a list number, a box.
SAFE = WORDS.map(lambda text: f"字{text}")
MARKS = st.fixed_dictionaries({}, optional={"bold": st.just(True), "italic": st.just(True), "strike": st.just(True)})


@st.composite
def runs(draw: Any, *, links: bool = True) -> tuple[Run, ...]:
    """Neighbours differ in their marks, so that nothing is joined on the way."""
    made: list[Run] = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["plain", "marked", "code", "link" if links else "plain"]))
        text = "\n".join(draw(st.lists(SAFE, min_size=1, max_size=2)))
        if kind == "code":
            made.append(Run(text, code=True))
        elif kind == "link":
            made.append(Run(text, link=draw(st.sampled_from(["https://example.org/a?b=1&c=2", "a.md#x", "mailto:a@b.c"]))))
        else:
            made.append(Run(text, **(draw(MARKS) if kind == "marked" else {})))
    return joined(made)


@st.composite
def tables(draw: Any) -> Table:
    width, height = draw(st.integers(1, 4)), draw(st.integers(2, 4))
    rows = tuple(tuple(Cell(draw(runs(links=False))) for _ in range(width)) for _ in range(height))
    return Table(rows, 1)


@st.composite
def lists(draw: Any) -> list[Block]:
    """Items that go in by one level at a time; a level is of one kind until it ends, and its numbers run on."""
    made: list[Block] = []
    kinds: list[tuple[str, int]] = []
    for _ in range(draw(st.integers(1, 6))):
        depth = draw(st.integers(0, len(kinds))) if made else 0
        depth = min(depth, 4)
        kinds = kinds[: depth + 1]
        if depth == len(kinds):
            kinds.append((draw(st.sampled_from(["bulleted", "numbered", "todo"])), 0))
        kind, number = kinds[depth]
        kinds[depth] = (kind, number + 1)
        fields: dict[str, Any] = {"number": number + 1} if kind == "numbered" else {"done": draw(st.booleans())} if kind == "todo" else {}
        made.append(Block(kind, draw(runs()), depth=depth, **fields))  # type: ignore[arg-type]  # drawn from the types
    return made


@st.composite
def documents(draw: Any) -> Document:
    blocks = [Block("paragraph", draw(runs()))]
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["heading", "paragraph", "list", "quote", "code", "table", "divider"]))
        if kind == "list":
            blocks += [*draw(lists()), Block("paragraph", (Run("列表之后"),))]
        elif kind == "table":
            blocks += [Block("table", table=draw(tables())), Block("paragraph", (Run("表格之后"),))]
        elif kind == "heading":
            blocks.append(Block("heading", draw(runs()), level=draw(st.integers(1, 6))))
        elif kind == "code":
            lines = draw(st.lists(SAFE, min_size=1, max_size=3))
            blocks += [Block("code", (Run("\n".join(lines)),)), Block("paragraph", (Run("代码之后"),))]
        elif kind == "divider":
            blocks.append(Block("divider"))
        else:
            blocks.append(Block(kind, draw(runs())))  # type: ignore[arg-type]  # as above
    return Document(tuple(blocks))


#: What a reader of one format or another takes for markup.
PIECES = (
    *'a条款 *_`#-|\\。“>\u3000é\u00a0!\t\n\u200b+=&"~$[]<\xad', "  ", "1.", "<b>", "&amp;", "~~", "$$", "[x]", "[l](u)", "http://a.b", "---",
    "<!--", "```", "![i](j)", "\n\n", "javascript:x", "<script>", "---\n", "# ", "- ", "> ", "well-",
)  # fmt: skip
TARGETS = ("", "", "", "https://a.b/c", "rel/x y", "#a", "javascript:x", "file:///x", "data:text/html,x", "a(b", "a)b\\", "<x>")
HOSTILE = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join)


@st.composite
def hostile_runs(draw: Any, most: int = 3) -> tuple[Run, ...]:
    marks = st.sampled_from(({}, {}, {}, {"bold": True}, {"italic": True}, {"code": True}, {"strike": True}, {"bold": True, "italic": True}))
    return joined([Run(draw(HOSTILE), link=draw(st.sampled_from(TARGETS)), **draw(marks)) for _ in range(draw(st.integers(0, most)))])


@st.composite
def hostile_blocks(draw: Any) -> Block:
    """Any block with any of its fields, at any depth."""
    kind, depth = draw(st.sampled_from(BLOCK_TYPES)), draw(st.sampled_from((0, 0, 0, 1, 2, 9)))
    if kind == "table":
        extents = st.sampled_from((1, 1, 1, 2))
        cells = st.builds(Cell, hostile_runs(2), extents, extents)
        rows = draw(st.lists(st.lists(cells, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3).map(tuple))
        return Block("table", table=Table(rows, draw(st.integers(0, 1))), depth=depth)
    if kind == "divider":
        return Block("divider", depth=depth)
    fields: dict[str, Any] = {}
    if draw(st.integers(0, 5)) == 0:
        fields["label"] = draw(st.sampled_from(("一、", "(1)", "A.", "（二）", "1.1")))
    if kind == "heading":
        fields["level"] = draw(st.integers(1, 9))
    elif kind == "numbered":
        fields["number"] = draw(st.integers(0, 12))
    elif kind == "todo":
        fields["done"] = draw(st.booleans())
    elif kind in ("image", "file"):
        fields["src"] = draw(st.sampled_from(("media:m12", "http://a/b.png", "x y.png", "", "javascript:x")))
    elif kind in ("code", "raw"):
        fields["info"] = draw(st.sampled_from(("", "py", "a b", "html", "markdown", "yaml")))
    return Block(kind, draw(hostile_runs()), depth=depth, **fields)


def hostile_documents() -> st.SearchStrategy[Document]:
    return st.lists(hostile_blocks(), min_size=1, max_size=4).map(lambda blocks: Document(tuple(blocks)))


def shape(document: Document) -> list[tuple[Any, ...]]:
    """All that a document says, without where it stood."""
    return [(b.type, b.level, b.depth, b.number, b.done, _spoken(b.runs), b.table.header_rows if b.table else 0, _cells(b)) for b in document.blocks]


def _cells(block: Block) -> list[list[tuple[Any, ...]]]:
    return [[(_spoken(c.runs), c.colspan, c.rowspan) for c in row] for row in (block.table.rows if block.table else ())]


def _spoken(given: tuple[Run, ...]) -> tuple[Run, ...]:
    return joined([structs.replace(run, wrap=False) for run in given])
