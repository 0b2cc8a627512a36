"""Whether a written file, read again, says what the tree says: text for text, blanks and line ends aside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polyloop.contract.problem import problem
from polyloop.formats.blocks import Block, Document, printable, shown, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polyloop.formats import Target


def squeezed(text: str) -> str:
    return "".join(text.split())


def compare(wanted: Sequence[str], found: str, *, whole: bool) -> None:
    """Every piece in its order, and with `whole` nothing else. Raises task_failed."""
    text, at = squeezed(found), 0
    for number, piece in enumerate(map(squeezed, wanted)):
        place = at if whole and text.startswith(piece, at) else -1 if whole else text.find(piece, at)
        if place < 0:
            shown = {"block": number, "expected": piece[:80], "found": text[at : at + 80]}
            raise problem("task_failed", "the file does not hold the text that was written", stage="verify", details=shown)
        at = place + len(piece)
    if whole and at != len(text):
        raise problem("task_failed", "the file holds text that nobody wrote", stage="verify", details={"found": text[at : at + 80]})


def pieces(document: Document, target: Target) -> list[str]:
    """What a reader of the file must find, block by block. Raw content is written as each format can: it is not asked for."""
    return [told(block, target) for block in document.blocks if block.type != "raw"]


def told(block: Block, target: Target) -> str:
    """The text of a block as it is written. Markdown numbers its items itself (`list_label`)."""
    bare = block.table is not None or block.type == "divider" or (target == "md" and block.type == "numbered")
    return printable(block.text if bare else text_of(shown(block))).replace("\r", "")
