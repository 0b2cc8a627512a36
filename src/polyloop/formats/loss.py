"""What a written format cannot carry, told before it is written."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from polyloop.formats.blocks import LIST_TYPES, Block, Document, Loss, Run, printable, shown, text_of
from polyloop.formats.docx_styles import MAX_CONTINUED_DEPTH, MAX_LIST_DEPTH
from polyloop.formats.links import safe_link

if TYPE_CHECKING:
    from collections.abc import Callable

    from polyloop.formats import Target


def _spans(block: Block) -> bool:
    return block.table is not None and any(cell.colspan > 1 or cell.rowspan > 1 for row in block.table.rows for cell in row)


def _labelled(block: Block) -> bool:
    return block.type == "numbered" and bool(block.label)


def _odd_formula(block: Block) -> bool:
    from polyloop.formats.markdown_in import parser
    from polyloop.formats.markdown_out import formula_fits

    return block.type == "formula" and not formula_fits(printable(text_of(shown(block))), parser())


def _open_raw(block: Block) -> bool:
    from polyloop.formats.markdown_in import parser
    from polyloop.formats.markdown_out import ends_itself

    return block.type == "raw" and not ends_itself(printable(block.text), parser())


def _controls(block: Block) -> bool:
    return printable(block.text) != block.text


def _unsafe_link(block: Block) -> bool:
    return any(run.link and not safe_link(run.link) for runs in _all_runs(block) for run in runs)


def _all_runs(block: Block) -> list[tuple[Run, ...]]:
    return [cell.runs for row in block.table.rows for cell in row] if block.table else [block.runs]


def _less_deep(block: Block, parent: str) -> bool:
    """Word's lists are as deep as its list levels, its continued paragraphs as deep as their styles; nothing else stands in anything."""
    if block.type in LIST_TYPES:
        return block.depth > MAX_LIST_DEPTH
    return block.depth > (0 if block.type != "paragraph" or parent == "quote" else MAX_CONTINUED_DEPTH)


_Test = tuple[str, "Callable[[Block], bool]"]
_CONTROLS: Final[_Test] = ("control_characters", _controls)
_DEEP: Final[_Test] = ("heading_too_deep", lambda block: block.type == "heading" and block.level > 6)
_UNSAFE: Final[_Test] = ("unsafe_link", _unsafe_link)
#: What neither a page, a Word file nor paper takes in.
_OUTSIDE: Final[tuple[_Test, ...]] = (
    _CONTROLS, _UNSAFE, ("image_data", lambda block: block.type == "image"), ("file_as_link", lambda block: block.type == "file"),
)  # fmt: skip
_CODE: Final[tuple[_Test, ...]] = (
    ("raw_as_code", lambda block: block.type == "raw"),
    ("code_language", lambda block: block.type == "code" and bool(block.info)),
)
#: For each format: code, and which blocks suffer it.
_TESTS: Final[dict[str, tuple[_Test, ...]]] = {
    "md": (
        _CONTROLS,
        _DEEP,
        ("merged_cells", _spans),
        ("table_without_heads", lambda block: block.table is not None and block.table.header_rows != 1),
        ("list_label", _labelled),
        ("formula_as_code", _odd_formula),
        ("raw_as_code", _open_raw),
    ),
    "html": (*_OUTSIDE, _DEEP, ("raw_sanitised", lambda block: block.type == "raw")),
    "pdf": (*_OUTSIDE, *_CODE, _DEEP, ("italic", lambda block: any(run.italic for runs in _all_runs(block) for run in runs))),
    "docx": (*_OUTSIDE, *_CODE, ("labelled_item", _labelled)),
}


def losses_of(document: Document, target: Target) -> tuple[Loss, ...]:
    """Losses that `write` to this format would make, by code. A block written back from its own Markdown loses nothing."""
    found: Counter[str] = Counter()
    opened: list[Block] = []
    for block in document.blocks:
        if not (target == "md" and document.format == "md" and block.source is not None):
            found.update(code for code, suffers in _TESTS[target] if suffers(block))
        while opened and opened[-1].depth >= block.depth:
            opened.pop()
        found["nesting"] += target == "docx" and _less_deep(block, opened[-1].type if opened else "")
        opened.append(block)
    return tuple(Loss(code, count) for code, count in sorted(found.items()) if count)
