"""Blocks to a PDF file: A4, set by typst in the shipped font, which is embedded.

Every character is looked up in the font before anything is set: a sign the font lacks would leave no trace on the paper. The tree
goes to the typesetter as data, never as markup, and the same tree gives the same bytes.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from polyloop.contract.problem import problem
from polyloop.formats.blocks import Block, Document, Run, Table, grid, joint_at, printable, shown
from polyloop.formats.check import squeezed
from polyloop.formats.font import FONT, characters
from polyloop.formats.links import SAFE_SCHEMES, safe_link
from polyloop.formats.problems import unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence

_PAGE: Final = Path(__file__).with_name("page.typ")
_FAMILY: Final = "Noto Sans SC"
#: Unknown characters that an error names.
_NAMED: Final = 50
#: A cell of more text than this may break over pages.
_CELL_CHARS: Final = 800
_KINDS: Final = {"raw": "code", "image": "paragraph", "file": "paragraph"}


def unknown(document: Document) -> tuple[str, ...]:
    """Characters the font has no sign for, in the order they come."""
    known = characters()
    seen = dict.fromkeys(char for block in document.blocks for piece in _texts(block) for char in piece if char not in known)
    return tuple(char for char in seen if not char.isspace() and unicodedata.category(char) != "Cf")


def check_characters(document: Document) -> None:
    """Raises validation naming every character that could not be printed."""
    if found := unknown(document):
        told = [f"U+{ord(char):04X} {char}" for char in found[:_NAMED]]
        raise problem(
            "validation", f"the font has no sign for {', '.join(told[:10])}", stage="write", details={"characters": told, "count": len(found)}
        )


def write_pdf(document: Document) -> bytes:
    """Raises validation (characters without a sign), `library_missing`."""
    check_characters(document)
    try:
        import typst
    except ImportError as error:
        raise unreadable(document.name or "pdf", "library_missing", "writing PDF needs typst") from error
    told = {
        "title": " ".join(printable(document.title).split()), "lang": document.lang, "font": _FAMILY,
        "blocks": [_block(block) for block in document.blocks],
    }  # fmt: skip
    return typst.compile(
        str(_PAGE), root=str(_PAGE.parent), format="pdf", font_paths=[str(FONT.parent)], ignore_system_fonts=True, timestamp=0,
        sys_inputs={"document": msgspec.json.encode(told).decode()},
    )  # fmt: skip


def same_pdf_text(document: Document, data: bytes) -> None:
    """Re-open a PDF and compare its text with what was set, blanks and line ends aside. Raises task_failed."""
    from polyloop.formats.pdf_in import text_of_pages

    found, at = squeezed(_bare(text_of_pages("file.pdf", data))), 0
    for number, block in enumerate(document.blocks):
        wanted = squeezed(_bare("".join(_texts(block))))
        held = found[at : at + len(wanted)]
        if held != wanted and not (_out_of_order(block) and sorted(held) == sorted(wanted)):
            details = {"block": number, "expected": wanted[:80], "found": held[:80]}
            raise problem("task_failed", "the file does not hold the text that was written", stage="verify", details=details)
        at += len(wanted)
    if at != len(found):
        raise problem("task_failed", "the file holds text that nobody wrote", stage="verify", details={"found": found[at : at + 80]})


def _out_of_order(block: Block) -> bool:
    """A row that breaks over pages is told page by page, a cell of several rows after others: nothing is missing, the order is the paper's."""
    return block.table is not None and any(len(cell.text) > _CELL_CHARS or cell.rowspan > 1 for row in block.table.rows for cell in row)


def _bare(text: str) -> str:
    """Without the characters that have no sign of their own: an extractor takes what follows one for something else."""
    return "".join(char for char in text if unicodedata.category(char) != "Cf")


def _number(block: Block) -> str:
    return f"{block.number}." if block.type == "numbered" and not block.label else ""


def _texts(block: Block) -> list[str]:
    """All text that is set of a block, in its order."""
    cells = [cell.runs for row in block.table.rows for cell in row] if block.table else [shown(block)]
    return [_number(block), *(run.text for runs in cells for run in _set(runs))]


def _set(runs: Sequence[Run]) -> list[Run]:
    """Runs as they are printed: soft line ends joined, odd blanks as blanks, nothing without a sign."""
    out: list[Run] = []
    for at, run in enumerate(runs):
        text = run.text
        if run.wrap:
            text = joint_at(runs, at)
        text = "".join(
            " " if char != "\n" and char.isspace() and char not in characters() else char for char in _bare(printable(text.replace("\r", "")))
        )
        out.append(Run(text, run.bold, run.italic, run.code, run.strike, run.link))
    return out


def _block(block: Block) -> dict[str, Any]:
    kind = "paragraph" if block.type == "numbered" and block.label else _KINDS.get(block.type, block.type)
    told: dict[str, Any] = {"k": kind, "p": block.depth}
    if block.type == "heading":
        told["n"] = max(block.level, 1)
    elif block.type == "numbered":
        told["t"] = _number(block)
    elif block.type == "todo":
        told["d"] = block.done
    if block.table is not None:
        return told | _table(block.table)
    return told | {"r": [_run(run, verbatim=kind == "code") for run in _set(shown(block))]}


def _run(run: Run, *, verbatim: bool = False) -> dict[str, Any]:
    """Blanks of code stay where they are: the typesetter would let them go at the ends of lines."""
    marks = {name: True for name, on in (("b", run.bold), ("c", run.code), ("s", run.strike)) if on}
    target = safe_link(run.link)
    link = {"l": target} if target.partition(":")[0].lower() in SAFE_SCHEMES and ":" in target else {}
    return {"t": run.text.replace(" ", "\xa0") if verbatim else run.text, **marks, **link}


def _table(table: Table) -> dict[str, Any]:
    """Cells with their places; where a row is short, or a span runs into another, the paper stays empty."""
    places = grid(table)
    width = max((len(row) for row in places), default=0) or 1
    covered: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for y, row in enumerate(places):
        for x, place in enumerate(row):
            if place is not None:
                covered.setdefault(place, []).append((x, y))
    cells: list[dict[str, Any]] = []
    for (at_row, at_cell), spots in covered.items():
        cell = table.rows[at_row][at_cell]
        (x, y), (right, bottom) = spots[0], spots[-1]
        told: dict[str, Any] = {"x": x, "y": y, "r": [_run(run) for run in _set(cell.runs)]}
        if len(spots) == (right - x + 1) * (bottom - y + 1) > 1:
            told |= {"a": right - x + 1, "o": bottom - y + 1}
        if x < len(table.aligns) and table.aligns[x]:
            told["s"] = table.aligns[x][0]
        if len(cell.text) > _CELL_CHARS:
            told["g"] = True
        cells.append(told)
    return {"w": width, "h": table.header_rows, "c": cells}
