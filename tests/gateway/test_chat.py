"""`chat()`: attempts, waits, stand-ins, breaker and deadline; none of it the kernel's budget."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyloop.app.store import open_runs
from polyloop.contract.problem import ProblemError
from polyloop.gateway.bindings import GatewayModel
from polyloop.gateway.faults import Fault, SourceError, judged
from polyloop.gateway.gateway import Gateway
from polyloop.gateway.settings import Breaking, Retry, Settings, SourceSettings, parse
from polyloop.gateway.sources import seated, source
from polyloop.kernel.records import plain
from polyloop.kernel.seams import ModelCallFailed, Reply
from polyloop.testing import ManualClock
from polyloop.testing.fake_openai import FakeOpenAI, said
from polyloop.testing.fake_openai import Fault as Trouble
from tests.gateway.desk import DONE, chat, counting, gateway, office, ran

BUSY = Fault("server_error", sent=True, next="again")


class Played:
    """A source that plays a list of replies and faults; the last one stays."""

    metered, cacheable = True, True

    def __init__(self, name: str, *script: Reply | Exception | Fault) -> None:
        self.name, self.script, self.asked = name, script, 0

    def classify(self, error: Exception) -> Fault | None:
        return judged(error)

    async def ask(self, request: Any, wire: Any) -> Reply:
        turn = self.script[min(self.asked, len(self.script) - 1)]
        self.asked += 1
        if isinstance(turn, Fault):
            raise SourceError(turn)
        if isinstance(turn, Exception):
            raise turn
        return turn


def timed(clock: ManualClock, waits: list[float]) -> Callable[[float], Any]:
    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        clock.advance(seconds)

    return sleep


def made(*sources: Played, settings: Settings | None = None) -> tuple[Gateway, ManualClock, list[float]]:
    clock, waits = ManualClock(), list[float]()
    return Gateway(sources, office(settings=settings, clock=clock, sleep=timed(clock, waits), jitter=lambda: 1.0)), clock, waits


def failure(through: Gateway) -> ModelCallFailed:
    with pytest.raises(ModelCallFailed) as failed:
        asyncio.run(chat(through))
    return failed.value


def test_three_failures_then_another_source():
    through, _, waits = made(Played("one", BUSY), Played("two", Reply("hi")))
    reply = asyncio.run(chat(through))
    assert (reply.text, reply.served_by, reply.attempts, waits) == ("hi", "two", 4, [0.5, 1.0])


def test_S2_35_attempts_and_stand_ins_cost_the_kernel_one_iteration(tmp_path, monkeypatch):
    with FakeOpenAI([Trouble("status", 503)]) as down, FakeOpenAI([counting()]) as up:
        first, second = f"openai:m@{down.url}", f"openai:m@{up.url}"
        (tmp_path / "gateway.toml").write_text(f'[sources."{first}"]\nthen = ["{second}"]\n[retry]\nfirst_wait_s = 0.01\n')
        monkeypatch.setenv("POLYLOOP_HOME", str(tmp_path))
        result = ran(tmp_path, "local", first, "r1")
    assert (result.reason, result.counters.iterations, len(down.seen), len(up.seen)) == ("completed", 1, 3, 1)
    assert told(tmp_path, "r1") == (second, 4)


def told(folder: Any, run_id: str) -> tuple[str, int]:
    async def read() -> tuple[str, int]:
        async with open_runs(str(folder / "runs.db"), "local") as runs:
            [body] = [s.body for s in (await runs.read(run_id)).sealed if s.kind == "model_result"]
        record = plain(body)
        return record["served_by"], record["attempts"]

    return asyncio.run(read())


NEXT = {
    "again": (Fault("rate_limited", sent=True, next="again"), 3, 1),
    "elsewhere": (Fault("permission_denied", sent=True, next="elsewhere"), 1, 1),
    "no": (Fault("bad_request", sent=True, next="no"), 1, 0),
}


@pytest.mark.parametrize(("fault", "first", "second"), NEXT.values(), ids=NEXT)
def test_what_may_follow_a_fault(fault, first, second):
    one, two = Played("one", fault), Played("two", fault)
    through, _, _ = made(one, two)
    failed = failure(through)
    assert (failed.code, one.asked, two.asked) == (fault.code, first, second * first)
    assert f"one: {fault.code}" in failed.message


def test_sent_is_false_only_if_nothing_ever_left():
    away = Fault("connect_failed", sent=False, next="again")
    assert failure(made(Played("one", away))[0]).sent is False
    assert failure(made(Played("one", away, BUSY, away))[0]).sent is True


def test_a_wait_asked_for_is_kept_unless_the_deadline_comes_first():
    slow = Fault("rate_limited", sent=True, next="again", wait_s=7)
    through, _, waits = made(Played("one", slow, Reply("hi")))
    assert asyncio.run(chat(through)).attempts == 2
    assert waits == [7]
    through, _, waits = made(Played("one", slow), Played("two", Reply("hi")))
    assert asyncio.run(chat(through, timeout=5)).served_by == "two"
    assert waits == []


def test_after_the_deadline_nobody_else_is_asked():
    class Slow(Played):
        async def ask(self, request: Any, wire: Any) -> Reply:
            clock.advance(10)
            return await super().ask(request, wire)

    two = Played("two", Reply("late"))
    through, clock, _ = made(Slow("one", Fault("permission_denied", sent=False, next="elsewhere")), two)
    with pytest.raises(ModelCallFailed) as failed:
        asyncio.run(chat(through, timeout=5))
    assert (failed.value.code, failed.value.sent, two.asked) == ("timeout", False, 0)


def test_the_server_says_how_long_to_wait():
    waits: list[float] = []

    async def one() -> Reply:
        at = office(sleep=timed(ManualClock(), waits), jitter=lambda: 0.0)
        reply = await chat(gateway(f"openai:m@{server.url}", at))
        await at.aclose()
        return reply

    with FakeOpenAI([Trouble("status", 429, retry_after="3"), Trouble("status", 429, retry_after="Wed, 21 Oct"), said("hi")]) as server:
        assert asyncio.run(one()).attempts == 3
    assert waits == [3.0, 0.5]


def test_an_exception_nobody_classified_is_shown_and_never_repeated(tmp_path):
    odd = Played("one", ZeroDivisionError("by hand"))
    result = ran(tmp_path, "local", GatewayModel(made(odd)[0], "m"), "r1")
    assert (result.reason, result.error["code"], odd.asked) == ("model_call_failed", "model_exception", 1)
    assert result.error["message"] == "ZeroDivisionError: by hand"


def test_R98_S2_39_a_source_without_a_classifier_is_refused_at_assembly():
    class Blind:
        name, metered, cacheable = "blind", True, True

        async def ask(self, request, wire):
            return Reply("x")

    with pytest.raises(ProblemError, match="blind does not classify"):
        Gateway([Blind()], office())
    with pytest.raises(ProblemError, match="needs a source"):
        Gateway([], office())


def test_the_breaker_opens_half_opens_and_closes_by_the_injected_clock():
    one = Played("one", *[BUSY] * 4, Reply("back"))
    through, clock, _ = made(one, settings=Settings(retry=Retry(attempts=1), breaker=Breaking(failures=3, open_s=30)))
    for _ in range(3):
        assert failure(through).code == "server_error"
    refused = failure(through)
    assert (refused.code, refused.sent, one.asked) == ("breaker_open", False, 3)
    clock.advance(30)
    assert failure(through).code == "server_error"  # the one try, which fails
    assert (failure(through).code, one.asked) == ("breaker_open", 4)
    clock.advance(30)
    assert asyncio.run(chat(through)).text == "back"
    assert asyncio.run(chat(through)).text == "back"


def test_a_cancelled_try_of_a_half_open_breaker_leaves_the_next_one_free():
    class Hangs(Played):
        async def ask(self, request: Any, wire: Any) -> Reply:
            if self.asked == 1:
                self.asked += 1
                await asyncio.Event().wait()
            return await super().ask(request, wire)

    one = Hangs("one", BUSY, BUSY, Reply("back"))
    through, clock, _ = made(one, settings=Settings(retry=Retry(attempts=1), breaker=Breaking(failures=1, open_s=1)))
    assert failure(through).code == "server_error"
    clock.advance(1)

    async def cut() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(chat(through), 0.05)
        assert (await chat(through)).text == "back"

    asyncio.run(cut())


def test_no_more_calls_at_once_than_a_source_has_seats():
    now = most = 0

    class Slow(Played):
        async def ask(self, request: Any, wire: Any) -> Reply:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.01)
            now -= 1
            return Reply("x")

    through, _, _ = made(Slow("one"), settings=Settings(sources={"one": SourceSettings(concurrency=3)}))

    async def many() -> None:
        await asyncio.gather(*(chat(through) for _ in range(12)))

    asyncio.run(many())
    assert most == 3


def test_waiting_for_a_seat_is_not_sending():
    class Stuck(Played):
        async def ask(self, request: Any, wire: Any) -> Reply:
            await asyncio.sleep(1)
            return Reply("x")

    through, _, _ = made(Stuck("one"), settings=Settings(sources={"one": SourceSettings(concurrency=1)}, retry=Retry(attempts=1)))

    async def two() -> ModelCallFailed:
        first = asyncio.ensure_future(chat(through))
        await asyncio.sleep(0)
        with pytest.raises(ModelCallFailed) as failed:
            await chat(through, timeout=0.05)
        first.cancel()
        return failed.value

    refused = asyncio.run(two())
    assert (refused.code, refused.sent) == ("timeout", False)


def test_a_source_without_a_free_seat_has_not_failed_and_another_is_asked():
    class Stuck(Played):
        async def ask(self, request: Any, wire: Any) -> Reply:
            await leave.wait()
            return Reply("at last")

    settings = Settings(sources={"one": SourceSettings(concurrency=1)}, retry=Retry(attempts=1, attempt_s=0.05), breaker=Breaking(failures=1))
    two = Played("two", Reply("from two"))
    through, _, _ = made(Stuck("one"), two, settings=settings)

    async def both() -> list[str]:
        async with asyncio.timeout(10), through.office.seats("one"):
            second = (await chat(through)).text
        leave.set()
        return [second, (await chat(through)).text]

    leave = asyncio.Event()
    assert asyncio.run(both()) == ["from two", "at last"]


SETTINGS = {
    "no toml": ("=", "gateway.toml"),
    "unknown field": ("[retry]\ntries = 3", "tries"),
    "no amount": ('[caps]\ntenant = "lots"', "not an amount"),
    "a price of nothing": ('[sources."m"]\nprice = {}', "names an amount"),
    "an amount no store can add up": ('[sources."m"]\nprice = {call = "1e30"}', "not an amount"),
    "an amount that would take for ever": ('[caps]\nsession = "1e999999999"', "not an amount"),
    "no attempt": ("[retry]\nattempts = 0", "attempts"),
    "no time": ("[retry]\nattempt_s = nan", "attempt_s"),
    "for ever": ("[breaker]\nopen_s = inf", "open_s"),
    "no seat": ('[sources."m"]\nconcurrency = 0', "concurrency"),
    "a float": ('[sources."m"]\nprice = {input = 0.1}', "input"),
}


@pytest.mark.parametrize(("text", "word"), SETTINGS.values(), ids=SETTINGS)
def test_settings_that_cannot_be_read_are_refused_by_name(text, word):
    with pytest.raises(ProblemError, match=word) as stop:
        parse("gateway.toml", text.encode())
    assert stop.value.problem.kind == "validation"


def test_only_a_source_outside_this_process_can_stand_in():
    settings = Settings(sources={"openai:m@http://h/v1": SourceSettings(then=("script:x",))})
    with pytest.raises(ProblemError, match="stand in"):
        seated(source("openai:m@http://h/v1", lambda _: b""), office(settings=settings))


@pytest.mark.parametrize("name", ["nope:x", "openai:", "openai:m", "openai:m@ftp://h", "script:", ""])
def test_a_model_nobody_can_be_is_refused_before_the_run(name):
    with pytest.raises(ProblemError) as stop:
        source(name, lambda _: b"")
    assert stop.value.problem.kind == "validation"


def test_our_own_model_seam_is_left_alone():
    class Own:
        async def call(self, request: Any) -> Reply:
            return Reply(DONE)

    own = Own()
    assert seated(own, office()) is own


def test_the_settings_shown_in_the_documentation_can_be_read():
    text = (Path(__file__).parents[2] / "docs" / "gateway.md").read_text()
    settings = parse("gateway.toml", text.split("```toml\n")[1].split("```")[0].encode())
    assert (settings.retry, settings.breaker) == (Retry(), Breaking())
    assert settings.caps.of("acme", "s") == (("", 500_000_000), ("s", 5_000_000))


def test_a_timeout_of_the_sources_own_is_its_own_exception():
    with pytest.raises(TimeoutError, match="mine"):
        asyncio.run(chat(made(Played("one", TimeoutError("mine")))[0]))


def test_those_who_wait_are_told_of_an_exception_nobody_classified(tmp_path):
    async def both() -> list[Any]:
        at = office(tmp_path)
        through = Gateway([Played("one", ZeroDivisionError("by hand"))], at)
        try:
            return await asyncio.gather(*(chat(through, cache_namespace="ns", call_id=c) for c in "ab"), return_exceptions=True)
        finally:
            await at.aclose()

    first, waiter = asyncio.run(both())
    assert isinstance(first, ZeroDivisionError)
    assert (waiter.code, waiter.message) == ("model_exception", "ZeroDivisionError: by hand")


def test_a_failed_line_of_a_script_fails_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.jsonl").write_text('{"error": {"code": "rate_limited", "sent": false}}')
    result = ran(tmp_path, "local", "script:s.jsonl", "r1")
    assert (result.error["code"], result.error["sent"], result.counters.iterations) == ("rate_limited", False, 0)
