"""Charges fold into a balance; grants cover or do not."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyloop.contract.problem import ProblemError
from polyloop.contract.spend import MICRO, MOVES, Balance, Charge, Grant, Quote, balance, latest, micro, refused

KINDS = ("reserve", "uncertain", "settle", "refund")


def charges(*rows: tuple[str, str, int]) -> list[Charge]:
    return [Charge(order, "g1", kind, amount) for order, kind, amount in rows]


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ([], Balance(0, 0, 0)),
        ([("o1", "reserve", 5)], Balance(5, 0, 1)),
        ([("o1", "reserve", 5), ("o1", "reserve", 5)], Balance(5, 0, 1)),  # a repeated row counts once
        ([("o1", "reserve", 5), ("o1", "settle", 3)], Balance(0, 3, 1)),
        ([("o1", "reserve", 5), ("o1", "settle", 7)], Balance(0, 7, 1)),  # what was really spent is told
        ([("o1", "reserve", 5), ("o1", "refund", 5)], Balance(0, 0, 0)),
        ([("o1", "reserve", 5), ("o1", "uncertain", 5)], Balance(5, 0, 1)),
        ([("o1", "reserve", 5), ("o1", "uncertain", 5), ("o1", "refund", 5), ("o2", "reserve", 2)], Balance(2, 0, 1)),
        ([("o1", "reserve", 5), ("o1", "uncertain", 5), ("o1", "settle", 4), ("o2", "reserve", 2)], Balance(2, 4, 2)),
    ],
)
def test_balance(rows: list[tuple[str, str, int]], wanted: Balance) -> None:
    assert balance(charges(*rows)) == wanted


def test_every_move_of_an_order() -> None:
    legal = {("reserve", "uncertain"), ("reserve", "settle"), ("reserve", "refund"), ("uncertain", "settle"), ("uncertain", "refund")}
    for first, second in itertools.product(KINDS, KINDS):
        head = charges(("o1", "reserve", 1)) if first in ("settle", "refund", "uncertain") else []
        rows = [*head, *charges(("o1", first, 1), ("o1", second, 2))]
        if (first, second) in legal:
            assert latest(rows)["o1"].kind == second
        else:
            with pytest.raises(ProblemError, match="cannot take"):
                latest(rows)
    for kind in KINDS[1:]:
        with pytest.raises(ProblemError, match="not reserved"):
            latest(charges(("o1", kind, 1)))
    with pytest.raises(ProblemError):
        latest(charges(("o1", "reserve", -1)))
    assert set(MOVES) == {"", *KINDS}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(KINDS), st.integers(0, 9))))
def test_money_is_never_lost_or_made(rows: list[tuple[str, str, int]]) -> None:
    """Against a ledger kept by hand, one legal row at a time."""
    held, spent, kept = dict[str, int](), dict[str, int](), list[Charge]()
    for order, kind, amount in rows:
        try:
            latest([*kept, *charges((order, kind, amount))])
        except ProblemError:
            continue
        kept += charges((order, kind, amount))
        held.pop(order, None)
        if kind in ("reserve", "uncertain"):
            held[order] = amount
        elif kind == "settle":
            spent[order] = amount
    assert balance(kept) == Balance(sum(held.values()), sum(spent.values()), len(held) + len(spent))


GRANT = Grant(
    id="g1", credits_micro=10, tasks=2, modes=("image",), models=("m1",), tiers=("cheap",), max_seconds=5, max_width=100, max_height=50, until=1000
)


@pytest.mark.parametrize(
    ("quote", "used", "now", "why"),
    [
        ({}, (0, 0, 0), 0, ""),
        ({}, (0, 0, 0), 1000, "expired"),
        ({"mode": "video"}, (0, 0, 0), 0, "mode"),
        ({"model": "m2"}, (0, 0, 0), 0, "model"),
        ({"model": "m2", "tier": "cheap"}, (0, 0, 0), 0, ""),
        ({"seconds": 5}, (0, 0, 0), 0, ""),
        ({"seconds": 5.1}, (0, 0, 0), 0, "seconds"),
        ({"width": 101}, (0, 0, 0), 0, "size"),
        ({"height": 51}, (0, 0, 0), 0, "size"),
        ({}, (0, 0, 2), 0, "tasks"),
        ({"amount_micro": 10}, (0, 0, 0), 0, ""),
        ({"amount_micro": 11}, (0, 0, 0), 0, "credits"),
        ({"amount_micro": 4}, (3, 4, 1), 0, "credits"),
        ({"amount_micro": 3}, (3, 4, 1), 0, ""),
    ],
)
def test_S1_50_what_a_grant_covers(quote: dict[str, object], used: tuple[int, int, int], now: int, why: str) -> None:
    asked = Quote(**{"amount_micro": 1, "mode": "image", "model": "m1", "width": 100, "height": 50} | quote)
    assert refused(GRANT, Balance(*used), asked, now) == why


def test_a_bare_grant_limits_credits_alone() -> None:
    assert refused(Grant(id="g", credits_micro=1), Balance(0, 0, 99), Quote(1, mode="x", seconds=9, width=9, height=9), 10**15) == ""
    assert refused(Grant(id="g", credits_micro=0), Balance(0, 0, 0), Quote(1), 0) == "credits"


def test_amounts_are_exact() -> None:
    assert [micro(a) for a in (0, 1, "0.1", "0.000001", "12.5")] == [0, MICRO, 100_000, 1, 12_500_000]
    for bad in ("0.0000001", "-1", "x", "nan", "inf", "", "1000000000.1", "1e999999999"):
        with pytest.raises(ValueError, match="not an amount"):
            micro(bad)
