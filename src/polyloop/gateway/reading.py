"""JSON that others wrote, as the standard has it: what cannot be written down again as it was is refused, never changed."""

from __future__ import annotations

import json
import math
from typing import NoReturn


def parsed(text: str | bytes) -> object:
    """The value. Raises ValueError (no JSON, NaN, a number beyond a float), RecursionError (nested too deep)."""
    return json.loads(text, parse_constant=_no_number, parse_float=_finite)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise ValueError(f"{digits[:40]} is beyond a float")
    return number
