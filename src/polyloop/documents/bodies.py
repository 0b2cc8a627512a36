"""What the body of a block may be, whichever way it comes: each has limits, and so has all that one write carries. Seed: S0.3, S0.26."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, cast

import msgspec

from ..contract.problem import FieldProblem, bad_arguments
from ..formats.blocks import Block
from ..formats.limits import MAX_TABLE_PLACES
from . import limits

#: How a NUL is written in JSON: what does not hold this holds none.
_NUL: Final = "\\u0000"
#: Levels of a heading (0 = not said).
_LEVELS: Final = range(10)


def check(bodies: Iterable[str], field: str = "blocks") -> None:
    """Raises validation naming the field and the first body that is no block, is too large, or holds what no block can."""
    total = 0
    for n, body in enumerate(bodies):
        total += len(body)
        if len(body) > limits.BLOCK_CHARS:
            raise _wrong(f"{field}.{n}", "too_large", f"a block has at most {limits.BLOCK_CHARS} characters in JSON")
        if total > limits.WRITE_CHARS:
            raise _wrong(field, "too_large", f"the blocks of one write have at most {limits.WRITE_CHARS} characters in JSON")
        try:
            block = msgspec.json.decode(body, type=Block)
        except (msgspec.DecodeError, RecursionError) as error:
            raise _wrong(f"{field}.{n}", "invalid_value", f"not a block: {error}"[:300]) from error
        if _NUL in body and any("\0" in text for text in strings(msgspec.json.decode(body))):
            raise _wrong(f"{field}.{n}", "invalid_value", "a text holds no NUL character")
        if name := _out_of_range(block):
            raise _wrong(f"{field}.{n}.{name}", "out_of_range", f"no {name} of a block")


def _out_of_range(block: Block) -> str:
    """The name of a number that cannot be, or ""."""
    if block.level not in _LEVELS:
        return "level"
    if block.depth < 0:
        return "depth"
    cells = [cell for row in block.table.rows for cell in row] if block.table else ()
    return "table" if any(not 0 < span <= MAX_TABLE_PLACES for cell in cells for span in (cell.colspan, cell.rowspan)) else ""


def strings(value: object) -> Iterator[str]:
    """Every text in a JSON value, names apart."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in cast("dict[str, object]", value).values() if isinstance(value, dict) else cast("list[object]", value):
            yield from strings(part)


def _wrong(field: str, issue: str, why: str) -> Exception:
    return bad_arguments([FieldProblem(field, issue, why)])
