"""One purse for calls and for whatever else costs, in the transaction of whoever spends; and a person's word on what stays held."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from polyloop.contract.problem import ProblemError
from polyloop.contract.spend import Order, Purse
from polyloop.db import Database, Schema, Tx
from polyloop.gateway import accounts
from polyloop.gateway.accounts import Accounts, Used
from polyloop.gateway.cache import SCHEMA
from polyloop.gateway.settings import Caps, Price, Retry, Settings, SourceSettings
from polyloop.testing.fake_openai import FakeOpenAI, Fault, said
from tests.gateway.desk import chat, gateway, office
from tests.gateway.test_commands import gateway as command
from tests.gateway.test_ledger import codes

M = 1_000_000
OTHER = Schema("other", ("create table picture (id text primary key);",))


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    opened = Database.open(tmp_path / "runs.db", [SCHEMA, OTHER])
    yield opened
    opened.close()


def painted(tx: Tx, purse: Purse, order: Order) -> str:
    """What another spender does: its own row and the money in one transaction."""
    refused = purse.reserve(tx, order, 1)
    if refused is not None:
        return refused[0]
    tx.run("insert into picture values (?)", order.id)
    return "held"


def test_calls_and_pictures_spend_under_one_cap(tmp_path, db):
    with FakeOpenAI([said("x")]) as server:
        name = f"openai:m@{server.url}"
        caps = Caps(tenant=10, session=8)
        settings = Settings(sources={name: SourceSettings(price=Price(call=2))}, retry=Retry(attempts=1), caps=caps)

        async def all_at_once() -> tuple[list[str], list[str]]:
            at = office(tmp_path, settings=settings)
            pictures = [db.write(painted, Accounts(caps), Order("local", "s", f"picture {n}", "paint", 2 * M)) for n in range(10)]
            calls = codes([chat(gateway(name, at), call_id=f"c{n}", session_id="s") for n in range(10)])
            done, called = await asyncio.gather(asyncio.gather(*pictures), calls)
            await at.aclose()
            return done, called

        done, called = asyncio.run(all_at_once())
        assert done.count("held") + called.count("passed") == 4  # of 20: the session's cap of 8, two each
        assert {*done, *called} <= {"held", "passed", "spend_limit", "spend_limit False"}
        assert len(server.seen) == called.count("passed")
    assert len(db.look(lambda tx: tx.rows("select id from picture"))) == done.count("held")
    assert sum(u.held_micro + u.spent_micro for u in db.look(accounts.usage, "local")) == 8 * M


def test_an_effect_that_is_not_kept_holds_no_money(db):
    order = Order("local", "s", "p1", "paint", 2 * M)

    def breaks(tx: Tx) -> None:
        painted(tx, Accounts(Caps()), order)
        raise ValueError("the picture cannot be kept")

    with pytest.raises(ValueError, match="kept"):
        db.write_sync(breaks)
    assert (db.look(accounts.usage, "local"), db.look(accounts.held, "local")) == ([], [])


MOVES = {
    "settled for less": ([("settle", M)], True, Used("s", "paint", 1, 0, 0, 0, M, 0)),
    "settled for more": ([("settle", 3 * M)], True, Used("s", "paint", 1, 0, 0, 0, 3 * M, 0)),
    "uncertain": ([("uncertain", None)], True, Used("s", "paint", 1, 0, 0, 2 * M, 0, 0)),
    "uncertain, then settled": ([("uncertain", None), ("settle", M)], True, Used("s", "paint", 1, 0, 0, 0, M, 0)),
    "uncertain, then refunded": ([("uncertain", None), ("refund", None)], True, None),
    "settled twice": ([("settle", M), ("settle", 2 * M)], False, Used("s", "paint", 1, 0, 0, 0, M, 0)),
    "refunded after all": ([("settle", M), ("refund", None)], False, Used("s", "paint", 1, 0, 0, 0, M, 0)),
}


@pytest.mark.parametrize(("moves", "last", "left"), MOVES.values(), ids=MOVES)
def test_an_order_moves_as_every_charge_does_and_the_cap_counts_what_is_left(db, moves, last, left):
    purse, order = Accounts(Caps(tenant=2)), Order("local", "s", "p1", "paint", 2 * M)
    db.write_sync(purse.reserve, order, 1)
    assert [db.write_sync(purse.move, order, *move) for move in moves][-1] is last
    assert db.look(accounts.usage, "local") == ([] if left is None else [left])
    free = 2 * M - (0 if left is None else left.held_micro + left.spent_micro)
    assert (db.write_sync(purse.reserve, Order("local", "", "p2", "paint", max(0, free) + 1), 1) or ("",))[0] == "spend_limit"
    assert db.write_sync(purse.move, Order("local", "s", "nobody", "paint", 1), "settle", 1) is False
    assert db.write_sync(purse.move, Order("other", "s", "p1", "paint", 1), "settle", 1) is False


# --- a person's word -------------------------------------------------------------------------------------------------


def lost(folder: Path, faults: list[Any], cap: int = 8) -> str:
    """A call whose answer was lost, held under a cap; its source."""
    with FakeOpenAI(faults) as server:
        name = f"openai:m@{server.url}"
        (folder / "gateway.toml").write_text(
            f'[sources."{name}"]\nprice = {{call = 4}}\n[retry]\nattempts = 2\nfirst_wait_s = 0\ndeadline_s = 30\n[caps]\ntenant = {cap}\n'
        )
        command(folder, "chat", name, "hello")
    return name


def test_what_stays_held_is_listed_and_settled_by_hand(tmp_path):
    source = lost(tmp_path, [Fault("drop")])
    held = command(tmp_path, "held")[1]["held"]
    assert [(h["kind"], h["amount"], h["source"]) for h in held] == [("uncertain", "4", source)] * 2
    assert held[1]["callId"] == f"{held[0]['callId']}/2"
    assert "uncertain 4" in command(tmp_path, "held", lang="en")[1]
    assert command(tmp_path, "held", "--tenant", "b") == (0, {"tenant": "b", "held": []})
    code, told = command(tmp_path, "settle", held[0]["callId"], "--spent", "0")
    assert (code, told["charge"]["kind"], told["charge"]["amount"]) == (0, "refund", "0")
    code, told = command(tmp_path, "settle", held[1]["callId"], "--spent", "1.5")
    assert (code, told["charge"]["kind"], told["charge"]["amount"]) == (0, "settle", "1.5")
    assert command(tmp_path, "settle", held[1]["callId"], "--spent", "1.5")[0] == 0  # the same word twice
    assert "已结算" in command(tmp_path, "settle", held[1]["callId"], "--spent", "1.5", lang="zh")[1]
    [used] = command(tmp_path, "usage")[1]["usage"]
    assert (used["calls"], used["held"], used["spent"]) == (1, "0", "1.5")
    assert command(tmp_path, "held", lang="en")[1] == "Nothing.\n"


REFUSED = {
    "another word on what has ended": ("{call}", "2", 7, "conflict"),
    "unknown": ("nobody", "1", 2, "not_found"),
    "no amount": ("{call}", "lots", 2, "validation"),
    "less than nothing": ("{call}", "-1", 2, "validation"),
}


@pytest.mark.parametrize(("call", "spent", "code", "kind"), REFUSED.values(), ids=REFUSED)
def test_a_word_that_cannot_be_kept_changes_nothing(tmp_path, call, spent, code, kind):
    lost(tmp_path, [Fault("drop"), said("x")])
    [held] = command(tmp_path, "held")[1]["held"]
    command(tmp_path, "settle", held["callId"], "--spent", "3")
    before = command(tmp_path, "usage")
    exit_code, told = command(tmp_path, "settle", call.format(call=held["callId"]), f"--spent={spent}")
    assert (exit_code, told["error"]["kind"]) == (code, kind)
    assert command(tmp_path, "settle", held["callId"], "--spent", "3", "--tenant", "b")[1]["error"]["kind"] == "not_found"
    assert command(tmp_path, "usage") == before


def test_a_call_that_may_be_under_way_is_not_settled_by_hand(db):
    db.write_sync(Accounts(Caps()).reserve, Order("local", "s", "c1", "m", M), 1000)
    with pytest.raises(ProblemError, match="under way"):
        db.write_sync(accounts.close, "local", "c1", 0, 999)
    assert db.write_sync(accounts.close, "local", "c1", 0, 1000).kind == "refund"
    db.write_sync(Accounts(Caps()).reserve, Order("local", "s", "c1", "m", M), 2000)  # asked again
    with pytest.raises(ProblemError, match="under way"):
        db.write_sync(accounts.close, "local", "c1", 0, 1999)


def test_a_store_that_is_not_there_has_no_charge(tmp_path):
    code, told = command(tmp_path, "settle", "c1", "--spent", "0")
    assert (code, told["error"]["kind"], (tmp_path / "runs.db").exists()) == (2, "not_found", False)
