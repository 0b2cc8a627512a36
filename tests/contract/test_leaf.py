"""Declarations that could not keep the contract do not exist."""

from __future__ import annotations

from typing import Any

import pytest

from polyloop.contract.leaf import Operation, Step
from polyloop.contract.schema import Shape, closed
from tests.contract.toy import OPS, REPLY

NOTHING = closed({"type": "object"})
WRITE = Step("write", effect=True, reply=REPLY)


def declared(**more: Any) -> Operation:
    base: dict[str, Any] = {"name": "put", "contract": "c", "effect": "write", "arguments": NOTHING, "output": Shape({})}
    return Operation(**base | {"steps": (WRITE,), "verify": "readback"} | more)


@pytest.mark.parametrize("reply", [None, {}, {"required": ["id"]}, {"required": ["taskId", "ok"]}])
def test_S0_20_an_effect_that_nothing_could_confirm(reply: dict[str, Any] | None) -> None:
    with pytest.raises(ValueError, match="must require one of"):
        Step("write", effect=True, reply=None if reply is None else Shape(reply))
    assert Step("look", reply=None if reply is None else Shape(reply)).effect is False


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"verify": "none"}, "every write declares how it is verified"),
        ({"effect": "pay", "verify": "none"}, "every write declares how it is verified"),
        ({"effect": "read", "steps": (Step("look"),)}, "a read never"),
        ({"steps": (Step("look"),)}, "a write has an effect step"),
        ({"effect": "read", "verify": "none"}, "a write has an effect step, a read none"),
        ({"effect": "pay", "retry": "once"}, "pay is never retried"),
    ],
)
def test_S0_6_every_write_declares_its_verification(more: dict[str, Any], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        declared(**more)


def test_numbered_parts_share_a_declaration() -> None:
    assert declared().step("write") == WRITE
    assert declared().step("write_12") == WRITE
    with pytest.raises(KeyError):
        declared().step("other")


def test_the_toy_declares_what_the_contract_knows() -> None:
    assert {op.effect for op in OPS.values()} == {"read", "write", "pay"}
    assert {op.verify for op in OPS.values()} == {"readback", "terminal_state", "none"}
    assert {op.answers for op in OPS.values()} == {"receipt", "ticket"}
