"""Money: reserved before a call is sent, settled by what was reported, charged once however often it is asked."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from polyloop.contract.problem import ProblemError
from polyloop.contract.spend import Order
from polyloop.db import Database
from polyloop.gateway import accounts
from polyloop.gateway.accounts import Accounts, Used
from polyloop.gateway.cache import SCHEMA
from polyloop.gateway.ledger import Ledger
from polyloop.gateway.settings import Caps, Price, Retry, Settings, SourceSettings
from polyloop.kernel.records import Usage
from polyloop.kernel.seams import ModelCallFailed
from polyloop.testing.fake_openai import FakeOpenAI, Fault, said
from tests.gateway.desk import chat, gateway, office, ran, until

M = 1_000_000


def settings(server: FakeOpenAI, price: Price | None = None, **caps: Any) -> Settings:
    return Settings(sources={f"openai:m@{server.url}": SourceSettings(price=price)}, retry=Retry(attempts=1, deadline_s=5), caps=Caps(**caps))


def spent(server: FakeOpenAI, tmp_path: Any, work: Any, said_settings: Settings, tenant: str = "local") -> tuple[Any, list[Used]]:
    """What the work returns, and the ledger afterwards."""

    async def run() -> tuple[Any, list[Used]]:
        at = office(tmp_path, tenant, said_settings)
        try:
            value = await work(gateway(f"openai:m@{server.url}", at))
            return value, at.shelf()[0].look(accounts.usage, tenant)
        finally:
            await at.aclose()

    return asyncio.run(run())


async def codes(calls: list[Any]) -> list[str]:
    done = await asyncio.gather(*calls, return_exceptions=True)
    return sorted("passed" if not isinstance(d, ModelCallFailed) else f"{d.code} {d.sent}" for d in done)


CASES = {"five of four units": (10, "4", 5, 2), "a tenant nobody knew": (1, "1", 8, 1)}


@pytest.mark.parametrize(("cap", "price", "at_once", "pass_"), CASES.values(), ids=CASES)
def test_what_is_admitted_at_once_never_passes_the_cap(tmp_path, cap, price, at_once, pass_):
    async def work(through: Any) -> list[str]:
        return await codes([chat(through, call_id=f"c{n}") for n in range(at_once)])

    with FakeOpenAI([said("x")]) as server:
        got, [used] = spent(server, tmp_path, work, settings(server, Price(call=price), tenant=cap), "new")
        assert got == ["passed"] * pass_ + ["spend_limit False"] * (at_once - pass_)
        assert (used.spent_micro, used.held_micro, len(server.seen)) == (pass_ * int(price) * M, 0, pass_)


def test_a_refused_call_costs_the_kernel_nothing(tmp_path, monkeypatch):
    with FakeOpenAI([said("x")]) as server:
        home = f'[sources."openai:m@{server.url}"]\nprice = {{call = 4}}\n[caps]\ntenant = "3.5"\n'
        (tmp_path / "gateway.toml").write_text(home)
        monkeypatch.setenv("POLYLOOP_HOME", str(tmp_path))
        result = ran(tmp_path, "local", f"openai:m@{server.url}", "r1")
        assert (result.reason, result.error["code"], result.counters.iterations, len(server.seen)) == ("model_call_failed", "spend_limit", 0, 0)


def test_tokens_are_priced_as_they_are_reported(tmp_path):
    async def work(through: Any) -> None:
        await chat(through, call_id="c1", session_id="s", params={"max_tokens": 100})

    with FakeOpenAI([said("x", usage=(1000, 20))]) as server:
        _, used = spent(server, tmp_path, work, settings(server, Price("0.15", "0.6", "0.001")))
        assert used == [Used("s", f"openai:m@{server.url}", 1, 1000, 20, 0, 150 + 12 + 1000, 0)]


def test_an_unknown_price_is_shown_unknown_and_refused_under_a_cap(tmp_path):
    async def work(through: Any) -> list[str]:
        return await codes([chat(through, call_id="c1")])

    with FakeOpenAI([said("x")]) as server:
        assert spent(server, tmp_path, work, settings(server)) == (["passed"], [Used("", f"openai:m@{server.url}", 1, 10, 5, 0, 0, 1)])
        assert spent(server, tmp_path, work, settings(server, tenant=10), "b") == (["price_unknown False"], [])
        assert len(server.seen) == 1


def test_usage_that_is_not_reported_stays_held_at_its_most(tmp_path):
    async def work(through: Any) -> None:
        await chat(through, call_id="c1", params={"max_tokens": 100})

    with FakeOpenAI([said("x", usage=None)]) as server:
        _, [used] = spent(server, tmp_path, work, settings(server, Price(output=1)))
        assert (used.held_micro, used.spent_micro, used.input) == (100, 0, 0)


FAILED = {"the server said no": (Fault("status", 503), 0), "it may have done the work": (Fault("drop"), M), "it hung": (Fault("silent"), M)}


@pytest.mark.parametrize(("fault", "held"), FAILED.values(), ids=FAILED)
def test_a_failed_call_is_held_unless_it_is_known_to_cost_nothing(tmp_path, fault, held):
    async def work(through: Any) -> list[str]:
        return await codes([chat(through, call_id="c1", timeout=0.5)])

    with FakeOpenAI([fault]) as server:
        _, used = spent(server, tmp_path, work, settings(server, Price(call=1)))
    assert sum(u.held_micro for u in used) == held


def tried(server: FakeOpenAI, **caps: Any) -> Settings:
    name = f"openai:m@{server.url}"
    return Settings(sources={name: SourceSettings(price=Price(call=4))}, retry=Retry(attempts=3, first_wait_s=0), caps=Caps(**caps))


def test_every_attempt_that_may_have_cost_is_held_beside_the_one_that_answered(tmp_path):
    async def work(through: Any) -> int:
        return (await chat(through, call_id="c1")).attempts

    with FakeOpenAI([Fault("drop"), Fault("status", 503), said("x")]) as server:
        attempts, [used] = spent(server, tmp_path, work, tried(server, tenant=8))
    assert (attempts, used.calls, used.held_micro, used.spent_micro) == (3, 2, 4 * M, 4 * M)


def test_attempts_that_may_have_cost_stop_at_the_cap(tmp_path):
    async def work(through: Any) -> list[str]:
        return await codes([chat(through, call_id="c1")])

    with FakeOpenAI([Fault("wrong_type")]) as server:
        got, [used] = spent(server, tmp_path, work, tried(server, tenant=10))
        assert (got, len(server.seen)) == (["spend_limit True"], 2)
    assert (used.calls, used.held_micro, used.spent_micro) == (2, 8 * M, 0)


def test_a_ledger_that_fails_between_attempts_ends_the_call(tmp_path):
    async def work(through: Any) -> list[str]:
        def break_it(tx: Any) -> None:
            tx.run("drop table gateway_charge")

        call = asyncio.ensure_future(codes([chat(through, call_id="c1")]))
        await until(lambda: bool(server.seen))
        await through.office.shelf()[0].write(break_it)
        gate.set()
        return await call

    def answer(body: dict[str, Any]) -> Any:
        gate.wait(10)
        return Fault("wrong_type")

    gate = threading.Event()
    with FakeOpenAI([answer]) as server:

        async def run() -> list[str]:
            at = office(tmp_path, "local", tried(server))
            try:
                return await work(gateway(f"openai:m@{server.url}", at))
            finally:
                await at.aclose()

        assert asyncio.run(run()) == ["store_failed True"]
        assert len(server.seen) == 1


def test_a_cancelled_call_stays_held_and_asked_again_it_is_charged_once(tmp_path):
    async def work(through: Any) -> int:
        first = asyncio.ensure_future(chat(through, call_id="c1"))
        await until(lambda: bool(server.seen))
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        held = through.office.shelf()[0].look(accounts.usage, "local")[0].held_micro
        for _ in range(2):
            await chat(through, call_id="c1")
        return held

    with FakeOpenAI([Fault("silent"), said("x")]) as server:
        held, [used] = spent(server, tmp_path, work, settings(server, Price(call=1), tenant=1))
        assert (held, used.calls, used.held_micro, used.spent_micro) == (M, 1, 0, M)


def test_a_reply_from_the_cache_costs_nothing(tmp_path):
    async def work(through: Any) -> None:
        for n in range(3):
            await chat(through, call_id=f"c{n}", cache_namespace="ns")

    with FakeOpenAI([said("x")]) as server:
        _, [used] = spent(server, tmp_path, work, settings(server, Price(call=1), tenant=1))
        assert (used.calls, used.spent_micro) == (1, M)


def test_sessions_and_tenants_have_caps_of_their_own(tmp_path):
    caps = {"tenant": 10, "session": 2, "tenants": {"poor": 1}}

    async def each(through: Any) -> list[str]:
        return [(await codes([chat(through, call_id=f"{s}{n}", session_id=s)]))[0] for n, s in enumerate(("s1", "s1", "s1", "s2"))]

    with FakeOpenAI([said("x")]) as server:
        said_settings = settings(server, Price(call=1), **caps)
        assert spent(server, tmp_path, each, said_settings, "rich")[0] == ["passed", "passed", "spend_limit False", "passed"]
        assert spent(server, tmp_path, each, said_settings, "poor")[0] == ["passed", *["spend_limit False"] * 3]


def test_a_sessions_cap_stops_no_other_session_that_asks_the_same(tmp_path):
    async def work(through: Any) -> list[str]:
        await chat(through, text="first", session_id="poor", call_id="c0")
        return await codes([chat(through, cache_namespace="ns", session_id=s, call_id=f"c-{s}") for s in ("poor", "rich")])

    with FakeOpenAI([said("x")]) as server:
        got, _ = spent(server, tmp_path, work, settings(server, Price(call=1), session=1))
        assert (got, len(server.seen)) == (["passed", "spend_limit False"], 2)


def test_calls_without_an_id_are_each_charged(tmp_path):
    async def work(through: Any) -> None:
        for _ in range(3):
            await chat(through)

    with FakeOpenAI([said("x")]) as server:
        _, [used] = spent(server, tmp_path, work, settings(server, Price(call=1)))
        assert (used.calls, used.spent_micro) == (3, 3 * M)


def test_a_ledger_that_fails_stops_a_call_before_it_and_loses_no_reply_after_it(tmp_path, caplog):
    async def work(through: Any) -> list[str]:
        db = through.office.shelf()[0]

        def break_it(body: dict[str, Any]) -> dict[str, Any]:
            db.write_sync(lambda tx: tx.run("alter table gateway_charge rename to gone"))
            return said("still here")

        server.answers = [break_it]
        return [(await chat(through, call_id="c1")).text, *await codes([chat(through, call_id="c2")])]

    async def run() -> list[str]:
        at = office(tmp_path, settings=settings(server))
        try:
            return await work(gateway(f"openai:m@{server.url}", at))
        finally:
            await at.aclose()

    with FakeOpenAI([said("x")]) as server:
        assert asyncio.run(run()) == ["still here", "store_failed False"]
    assert [r.message.split(":")[0] for r in caplog.records] == ["a charge could not be settled and stays held"]


def test_a_store_that_cannot_be_opened_fails_the_call_unsent(tmp_path):
    (tmp_path / "runs.db").write_bytes(b"no database at all, but long enough to be read as one" * 40)

    async def run() -> list[str]:
        at = office(tmp_path)
        return await codes([chat(gateway("openai:m@http://127.0.0.1:1/v1", at), call_id="c1")])

    assert asyncio.run(run()) == ["store_failed False"]


def test_caps_need_a_store_to_count_in():
    with pytest.raises(ProblemError, match="store"):
        office(settings=Settings(caps=Caps(tenant=1)))


@pytest.mark.parametrize("amount", ["-1", "x", "0.0000001"])
def test_an_amount_is_exact_or_refused(amount):
    with pytest.raises(ValueError, match="amount"):
        Price(call=amount)


def test_a_settled_charge_never_moves_again(tmp_path):
    async def work() -> list[Used]:
        db = Database.open(tmp_path / "l.db", [SCHEMA])
        book, order = Ledger(db, Accounts(Caps())), Order("t", "", "c", "m", 5)
        try:
            await book.reserve(order, 1)
            await book.settle(order, 3, Usage(1, 1), 1)
            await book.settle(order, 4, Usage(1, 1), 1)
            await book.give_up(order, 1, charged=False)
            return db.look(accounts.usage, "t")
        finally:
            db.close()

    assert asyncio.run(work()) == [Used("", "m", 1, 1, 1, 0, 3, 0)]
