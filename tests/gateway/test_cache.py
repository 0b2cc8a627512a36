"""The reply cache from outside: the server counts what reaches it. Two tenants never share, one asking is sent once."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyloop.db import Database
from polyloop.gateway import cache as kept
from polyloop.gateway.cache import SCHEMA, asked
from polyloop.kernel.records import Part, ToolCall
from polyloop.kernel.seams import Message, ModelCallFailed, Reply
from polyloop.testing.fake_openai import FakeOpenAI, Fault, said
from tests.gateway.desk import DONE, chat, counting, gateway, office, ran, request, resumed, started, until


def bound(tenant: str, **more: str) -> dict[str, str]:
    names = {"cache_namespace": f"ns-{tenant}", "tenant_id": tenant, **more}
    return {f"gateway.{name}": value for name, value in names.items()}


def summary(result: Any) -> str:
    return result.result["summary"]


def test_S2_48_two_tenants_with_the_same_text_each_get_their_own_reply(tmp_path):
    with FakeOpenAI([counting()]) as server:
        model = f"openai:m@{server.url}"
        first = {t: summary(ran(tmp_path, t, model, "r1", bound(t))) for t in ("a", "b")}
        again = {t: summary(ran(tmp_path, t, model, "r2", bound(t))) for t in ("a", "b")}
    assert (first, again, len(server.seen)) == ({"a": "reply 1", "b": "reply 2"}, first, 2)


@pytest.mark.parametrize("namespace", ["ns", "ns-a"])
def test_S2_48_even_one_namespace_of_two_tenants_is_two(tmp_path, namespace):
    """Also where the consumer has bound no tenant_id: the store's own tenant stands in the key."""
    with FakeOpenAI([counting()]) as server:
        model = f"openai:m@{server.url}"
        got = [summary(ran(tmp_path, t, model, "r1", {"gateway.cache_namespace": namespace})) for t in ("a", "b", "a")]
    assert (got, len(server.seen)) == (["reply 1", "reply 2", "reply 1"], 2)


def test_200_runs_of_two_tenants_at_once_are_two_calls(tmp_path):
    async def tenant(at: Any, name: str) -> set[str]:
        through = gateway(model, at)
        replies = await asyncio.gather(*(chat(through, cache_namespace="ns", call_id=f"{name}{n}") for n in range(100)))
        assert sum(not r.cached for r in replies) == 1
        return {r.text for r in replies}

    async def both() -> list[set[str]]:
        offices = [office(tmp_path, t) for t in ("a", "b")]
        try:
            return await asyncio.gather(*(tenant(at, at.tenant) for at in offices))
        finally:
            for at in offices:
                await at.aclose()

    with FakeOpenAI([counting()]) as server:
        model = f"openai:m@{server.url}"
        a, b = asyncio.run(both())
    assert (len(a), len(b), a & b, len(server.seen)) == (1, 1, set(), 2)


def test_a_resumed_run_reads_its_own_tenants_replies(tmp_path):
    with FakeOpenAI([counting()]) as server:
        model = f"openai:m@{server.url}"
        ran(tmp_path, "b", model, "r0", bound("b"))
        ran(tmp_path, "a", model, "r1", bound("a"))
        result = asyncio.run(resumed(tmp_path, "a", model, request("r1", bound("a"))))
    assert (summary(result), len(server.seen)) == ("reply 2", 2)


NEVER = {
    "no namespace": {},
    "off": {"gateway.cache_namespace": "ns", "gateway.cache": "off"},
    "refresh": {"gateway.cache_namespace": "ns", "gateway.cache": "refresh"},
}


@pytest.mark.parametrize("binding", NEVER.values(), ids=NEVER)
def test_S2_47_asked_again(tmp_path, binding):
    with FakeOpenAI([counting()]) as server:
        model = f"openai:m@{server.url}"
        got = [summary(ran(tmp_path, "local", model, f"r{n}", binding)) for n in (1, 2)]
        assert (got, len(server.seen)) == (["reply 1", "reply 2"], 2)
        if binding.get("gateway.cache") == "refresh":
            assert summary(ran(tmp_path, "local", model, "r3", {"gateway.cache_namespace": "ns"})) == "reply 2"


def test_a_mode_there_is_not_is_refused_at_step_0(tmp_path):
    with FakeOpenAI([counting()]) as server:
        result = ran(tmp_path, "local", f"openai:m@{server.url}", "r1", {"gateway.cache": "maybe"})
    assert (result.error["code"], result.error["key"], result.counters.iterations) == ("binding_rejected", "gateway.cache", 0)


BAD = {"length": said("cut", "length"), "filter": said("no", "content_filter"), "empty": said(""), "error": Fault("status", 400)}


@pytest.mark.parametrize("answer", BAD.values(), ids=BAD)
def test_what_was_cut_empty_or_no_reply_is_not_kept(tmp_path, answer):
    async def twice() -> None:
        at = office(tmp_path)
        for _ in range(2):
            try:
                await chat(gateway(f"openai:m@{server.url}", at), cache_namespace="ns")
            except ModelCallFailed as failed:
                assert failed.code == "bad_request"  # noqa: PT017
        await at.aclose()

    with FakeOpenAI([answer]) as server:
        asyncio.run(twice())
    assert len(server.seen) == 2


DAMAGE = {
    "a flipped byte": "update gateway_reply set body = replace(body, 'reply', 'xeply')",
    "another tenant's row": "update gateway_reply set tenant = 'b'",
    "another tenant_id": "update gateway_reply set tenant_id = 'b'",
    "another namespace": "update gateway_reply set namespace = 'other'",
    "no text": "update gateway_reply set body = x'ff00'",
    "no reply": "update gateway_reply set body = '[]', body_sha256 = '4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945'",
}


@pytest.mark.parametrize("sql", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_row_is_a_miss_told_once(tmp_path, caplog, sql):
    caplog.set_level(logging.WARNING)
    with FakeOpenAI([counting()]) as server:
        model = f"openai:m@{server.url}"
        ran(tmp_path, "a", model, "r1", bound("a"))
        connection = apsw.Connection(str(tmp_path / "runs.db"))
        connection.execute(sql)
        connection.close()
        got = [summary(ran(tmp_path, "a", model, f"r{n}", bound("a"))) for n in (2, 3)]
    assert (got, len(server.seen)) == (["reply 2", "reply 2"], 2)
    assert [r.message for r in caplog.records if "kept reply" in r.message] == [caplog.records[0].message]


def test_a_cache_that_cannot_be_used_costs_a_call_and_no_run(tmp_path, caplog):
    async def twice() -> list[str]:
        at = office(tmp_path)
        db = at.shelf()[0]
        await db.write(lambda tx: tx.run("drop table gateway_reply"))
        replies = [await chat(gateway(f"openai:m@{server.url}", at), cache_namespace="ns") for _ in range(2)]
        await at.aclose()
        return [r.text for r in replies]

    with FakeOpenAI([counting()]) as server:
        assert len(asyncio.run(twice())) == 2
    assert sorted(r.message.split(":")[0] for r in caplog.records) == [
        "a reply could not be kept", "the reply cache cannot be read, models are asked instead",
    ]  # fmt: skip


def test_erase_removes_exactly_one_tenant_or_namespace(tmp_path):
    with FakeOpenAI([counting()]) as server:
        model = f"openai:m@{server.url}"
        for tenant, space in [("a", "one"), ("a", "two"), ("b", "one")]:
            ran(tmp_path, tenant, model, f"r-{space}", {"gateway.cache_namespace": space})
    db = Database.open(tmp_path / "runs.db", [SCHEMA])
    try:

        def left() -> dict[str, list[str]]:
            return {t: [h.namespace for h in db.look(kept.held, t)] for t in ("a", "b")}

        assert left() == {"a": ["one", "two"], "b": ["one"]}
        assert (db.write_sync(kept.erase, "a", "two"), left()) == (1, {"a": ["one"], "b": ["one"]})
        assert (db.write_sync(kept.erase, "a", None), left()) == (1, {"a": [], "b": ["one"]})
        assert db.write_sync(kept.erase, "a", None) == 0
    finally:
        db.close()


def test_what_was_erased_is_no_longer_in_the_file(tmp_path):
    async def keep() -> None:
        at = office(tmp_path)
        await asyncio.gather(*(chat(gateway(f"openai:m@{server.url}", at), text=f"{n}", cache_namespace=f"n{n % 2}") for n in range(20)))
        await at.aclose()

    def found() -> int:
        return sum(file.read_bytes().count(b"in confidence") for file in tmp_path.iterdir())

    with FakeOpenAI([said("told in confidence " + "." * 9000)]) as server:
        asyncio.run(keep())
    counts = [found()]
    for namespace in ("n0", None):
        db = Database.open(tmp_path / "runs.db", [SCHEMA])
        db.write_sync(kept.erase, "local", namespace)
        db.close()
        counts.append(found())
    assert counts == [20, 10, 0]


# --- those who ask at the same time ---------------------------------------------------------------------------------


def flown(tmp_path: Any, answers: list[Any], work: Any) -> tuple[Any, int]:
    async def fly() -> Any:
        at = office(tmp_path)
        try:
            return await work(gateway(f"openai:m@{server.url}", at), server)
        finally:
            await at.aclose()

    with FakeOpenAI(answers) as server:
        return asyncio.run(fly()), len(server.seen)


def test_when_the_one_who_asks_is_cancelled_a_waiter_takes_over(tmp_path):
    async def work(through: Any, server: Any) -> str:
        asker, waiter = (asyncio.ensure_future(chat(through, cache_namespace="ns")) for _ in range(2))
        await until(lambda: bool(server.seen))
        asker.cancel()
        return (await waiter).text

    assert flown(tmp_path, [Fault("silent"), said("mine")], work) == ("mine", 2)


def test_a_waiter_may_be_cancelled_without_harm(tmp_path):
    async def work(through: Any, server: Any) -> str:
        asker, waiter = (asyncio.ensure_future(chat(through, cache_namespace="ns")) for _ in range(2))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        return (await asker).text

    assert flown(tmp_path, [said("mine")], work) == ("mine", 1)


def test_those_who_wait_share_a_failure_too_and_nothing_is_kept(tmp_path):
    async def work(through: Any, server: Any) -> list[str]:
        failed = await asyncio.gather(*(chat(through, cache_namespace="ns") for _ in range(20)), return_exceptions=True)
        return [*{f.code for f in failed if isinstance(f, ModelCallFailed)}, (await chat(through, cache_namespace="ns")).text]

    assert flown(tmp_path, [Fault("status", 400), said("now")], work) == (["bad_request", "now"], 2)


def test_one_who_waits_waits_no_longer_than_its_own_deadline(tmp_path):
    async def work(through: Any, server: Any) -> list[Any]:
        asker = asyncio.ensure_future(chat(through, cache_namespace="ns", timeout=60))
        await until(lambda: bool(server.seen))
        with pytest.raises(ModelCallFailed) as late:
            await chat(through, cache_namespace="ns", timeout=0.05)
        asker.cancel()
        return [late.value.code, late.value.sent, asker.done()]

    assert flown(tmp_path, [Fault("silent")], work) == (["timeout", False, False], 1)


def test_an_asker_whose_deadline_passes_hands_over_to_one_with_time_left(tmp_path):
    async def work(through: Any, server: Any) -> list[str]:
        hasty, patient = (asyncio.ensure_future(chat(through, cache_namespace="ns", timeout=t)) for t in (2, 60))
        await until(lambda: bool(server.seen))
        with pytest.raises(ModelCallFailed) as late:
            await hasty
        return [late.value.code, (await patient).text]

    assert flown(tmp_path, [Fault("silent"), said("mine")], work) == (["timeout", "mine"], 2)


# --- what makes two askings one --------------------------------------------------------------------------------------

words = st.text(max_size=4)
asking = st.tuples(words, st.none() | words, words, words, st.lists(words, max_size=2), st.dictionaries(words, st.integers(), max_size=2))


def digest(tenant: str, tenant_id: str | None, namespace: str, model: str, texts: list[str], params: dict[str, int]) -> str:
    return asked(tenant, tenant_id, namespace, model, [Message("user", (Part(text=t),)) for t in texts], params, None).digest


@given(asking, asking)
def test_only_the_same_asking_has_the_same_digest(one, other):
    assert (digest(*one) == digest(*other)) == (one == other)


def test_what_runs_together_does_not_collide():
    """Glued, t1 + 0hello is t10 + hello."""
    assert digest("t1", None, "n", "m", ["0hello"], {}) != digest("t10", None, "n", "m", ["hello"], {})
    assert digest("t", None, "n", "m", ["ab", "c"], {}) != digest("t", None, "n", "m", ["a", "bc"], {})


def test_who_asks_is_not_in_the_key(tmp_path):
    async def work(through: Any, server: Any) -> list[bool]:
        named = [{"session_id": "s1", "parent_call_id": "p1", "call_id": "c1"}, {"session_id": "s2", "call_id": "c2"}]
        return [(await chat(through, cache_namespace="ns", **n)).cached for n in named]

    assert flown(tmp_path, [counting()], work) == ([False, True], 1)


def test_a_kept_reply_comes_back_as_it_was(tmp_path):
    text = "e\u0301 😀 甲\u0000\ud800"
    reply = Reply(text, "why", (ToolCall("c1", "look", '{"n": 1}'),), ({"x": [1, None]},), "tool_calls", None, "m", attempts=2)

    async def there_and_back() -> Reply | None:
        db = Database.open(tmp_path / "c.db", [SCHEMA])
        shelf, key = kept.Cache(db), asked("t", None, "n", "m", (), {}, None)
        try:
            await shelf.put(key, reply, 1)
            return shelf.get(key)
        finally:
            db.close()

    assert asyncio.run(there_and_back()) == reply


def test_a_script_is_never_answered_from_the_cache(tmp_path, monkeypatch):
    """Its replies go by their number in the run, not by what is asked."""
    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        (tmp_path / "s.jsonl").write_text(json.dumps({"text": DONE.replace("done", f"reply {number}")}))
        assert summary(asyncio.run(started(tmp_path, "local", "script:s.jsonl", request(f"r{number}", bound("local"))))) == f"reply {number}"
