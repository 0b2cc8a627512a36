"""`chat()`: one asking, answered from the cache or by the first source that can, with what that cost.

Theory of operation. Cache and flights come first: the same asking of the same tenant and namespace goes out once. Then the money:
reserved before anything is sent. Then the sources in their order, each with its attempts, waits and breaker, all under one deadline.
Every fault of an attempt is judged by its source's own `classify`; an exception it does not know ends the call and is shown
as it is, and a source without `classify` is refused when the gateway is put together. The kernel sees one call (S2.35).

Seed: S2.35, S2.39, S2.42-S2.48; R69, R82, R98.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from polyloop.contract.problem import problem
from polyloop.contract.spend import Order
from polyloop.db import Database, DbError
from polyloop.ids import uuid7
from polyloop.kernel.objects import Json, ToolSpec
from polyloop.kernel.records import canonical
from polyloop.kernel.seams import Message, ModelCallFailed, ModelRequest, Reply

from .bindings import PREFIX, is_blank
from .cache import Asked, Cache, asked
from .faults import Fault
from .ledger import Bill, Ledger
from .office import Office, Source
from .settings import output_limit

_log: Final = logging.getLogger("polyloop.gateway")
#: Refusals that concern who asks (a cap), not what is asked: those who wait ask for themselves.
REFUSALS: Final = frozenset({"spend_limit", "price_unknown"})
CACHE_MODES: Final = ("off", "use", "refresh")
NO_ANSWER: Final = Fault("timeout", sent=True, next="again", message="no answer in time")
#: Not the source's failure: its breaker does not count it.
NO_SEAT: Final = Fault("timeout", sent=False, next="elsewhere", message="as many calls as it may have were under way all the time")


class _Served(Struct, frozen=True):
    source: Source
    reply: Reply


class _Failed(Exception):
    """No source answered."""

    def __init__(self, tried: Sequence[tuple[str, Fault]]) -> None:
        faults = [fault for _, fault in tried]
        told = next((f for f in reversed(faults) if f.code != "breaker_open"), faults[-1])
        counted: dict[str, int] = {}
        for name, fault in tried:
            line = f"{name}: {fault.code}{f' ({fault.message})' if fault.message else ''}"
            counted[line] = counted.get(line, 0) + 1
        message = "; ".join(line if n == 1 else f"{line} x{n}" for line, n in counted.items())
        super().__init__(message)
        self.attempts = len(tried)
        self.failure = ModelCallFailed(told.code, sent=any(f.sent for f in faults), message=message)


class Gateway:
    """Sources in their order, for one model name. Cheap to make; what is shared lives in the office."""

    def __init__(self, sources: Sequence[Source], office: Office | None = None) -> None:
        """Raises ProblemError(validation) for no source, or one that does not classify its own exceptions (R98)."""
        for source in sources:
            if not callable(getattr(source, "classify", None)):
                name = getattr(source, "name", type(source).__name__)
                raise problem("validation", f"source {name} does not classify its exceptions", operation="gateway", stage="open")
        if not sources:
            raise problem("validation", "a gateway needs a source", operation="gateway", stage="open")
        self.sources, self.office = tuple(sources), office or Office()

    async def chat(
        self,
        messages: Sequence[Message],
        *,
        model: str,
        params: Mapping[str, Json],
        tools: Sequence[ToolSpec] | None = None,
        cache: str = "use",
        cache_namespace: str | None = None,
        tenant_id: str | None = None,
        session_id: str | None = None,
        parent_call_id: str | None = None,
        call_id: str = "",
        reply_no: int = 1,
        timeout: float | None = None,  # noqa: ASYNC109  # the seam's published name
    ) -> Reply:
        """One reply. `timeout` in seconds, None = the settings' deadline. Raises ModelCallFailed, and what no source could classify."""
        _check(cache, cache_namespace=cache_namespace, tenant_id=tenant_id, session_id=session_id, parent_call_id=parent_call_id)
        request = ModelRequest(call_id, messages, params, {}, reply_no, tools)
        tenant = tenant_id or self.office.tenant
        deadline = self.office.clock.monotonic() + (self.office.settings.retry.deadline_s if timeout is None else timeout)

        async def ask() -> Reply:
            return await self._paid(request, tenant, session_id or "", deadline)

        kept = self._cache(cache, cache_namespace)
        if kept is None or cache_namespace is None:
            return await ask()
        key = asked(self.office.tenant, tenant_id, cache_namespace, model, messages, params, tools)
        return await (self._anew(kept, key, ask) if cache == "refresh" else self._once(kept, key, ask, deadline))

    # --- the same asking once -----------------------------------------------------------------------------------

    def _cache(self, mode: str, namespace: str | None) -> Cache | None:
        if namespace is None or mode == "off" or not all(s.cacheable for s in self.sources):
            return None
        shelf = self._shelf()
        return shelf[1] if shelf else None

    async def _anew(self, cache: Cache, key: Asked, ask: Callable[[], Awaitable[Reply]]) -> Reply:
        reply = await ask()
        await cache.put(key, reply, self.office.clock.now_ms())
        return reply

    async def _once(self, cache: Cache, key: Asked, ask: Callable[[], Awaitable[Reply]], deadline: float) -> Reply:
        """From the cache, or with those who are asking now, or as the one who asks.

        An asker that is cancelled, or whose own deadline passes, hands over to a waiter; a waiter waits no longer than its own.
        """
        flights, clock = self.office.flights, self.office.clock
        while (flight := flights.get(key.digest)) is not None:
            await asyncio.wait({flight}, timeout=max(0.0, deadline - clock.monotonic()))
            if not flight.done():
                raise ModelCallFailed("timeout", sent=False, message="the same is being asked already, and there was no answer by the deadline")
            error = None if flight.cancelled() else flight.exception()
            if flight.cancelled() or (isinstance(error, ModelCallFailed) and error.code in REFUSALS):
                continue
            if isinstance(error, ModelCallFailed):
                raise ModelCallFailed(error.code, sent=error.sent, key=error.key, message=error.message)
            if error is None:
                return replace(flight.result(), cached=True)
            raise ModelCallFailed("model_exception", message=f"{type(error).__name__}: {error}")
        if (hit := cache.get(key)) is not None:
            return replace(hit, cached=True)
        flight = flights[key.digest] = asyncio.get_running_loop().create_future()
        try:
            reply = await self._anew(cache, key, ask)
        except Exception as error:
            if isinstance(error, ModelCallFailed) and error.code == "timeout" and clock.monotonic() >= deadline:
                flight.cancel()
            else:
                flight.set_exception(error)
                flight.exception()  # looked at: nobody need wait for it
            raise
        except BaseException:
            flight.cancel()
            raise
        else:
            flight.set_result(reply)
            return reply
        finally:
            del flights[key.digest]

    # --- money ---------------------------------------------------------------------------------------------------

    async def _paid(self, request: ModelRequest, tenant: str, session: str, deadline: float) -> Reply:
        bill = Bill(self._ledger(), self._order(request, tenant, session), self.office.clock)
        await bill.reserve()
        try:
            served = await self._served(request, deadline, bill)
        except _Failed as failed:
            await _noted(bill.give_up(failed.attempts))
            raise failed.failure from failed
        name, usage = served.source.name, served.reply.usage
        price = self.office.settings.of(name).price
        await _noted(bill.settle(name, price.cost(usage) if price else None, usage, served.reply.attempts))
        return served.reply

    def _ledger(self) -> Ledger | None:
        if not any(s.metered for s in self.sources):
            return None
        shelf = self._shelf()
        return shelf[2] if shelf else None

    def _shelf(self) -> tuple[Database, Cache, Ledger] | None:
        try:
            return self.office.shelf()
        except DbError as error:
            raise ModelCallFailed("store_failed", sent=False, message=f"the gateway's store cannot be opened: {error}") from error

    def _order(self, request: ModelRequest, tenant: str, session: str) -> Order:
        """At most: the dearest source, a token per byte sent, and as many tokens back as the request allows."""
        settings = self.office.settings
        own = [settings.of(s.name) for s in self.sources if s.metered]
        most = None
        if own and all(o.price for o in own):
            size = len(canonical([list(request.messages), [t.schema for t in request.tools or ()]]))
            most = max(o.price.micro(size, output_limit(request.params, o)) for o in own if o.price)
        return Order(tenant, session, request.call_id or uuid7(), self.sources[0].name, most)

    # --- sources in their order ------------------------------------------------------------------------------------

    async def _served(self, request: ModelRequest, deadline: float, bill: Bill) -> _Served:
        tried: list[tuple[str, Fault]] = []
        for source in self.sources:
            reply = await self._from(source, request, deadline, bill, tried)
            if reply is not None:
                return _Served(source, replace(reply, served_by=reply.served_by or source.name, attempts=len(tried) + 1))
            if tried[-1][1].next == "no":
                break
        raise _Failed(tried)

    async def _from(self, source: Source, request: ModelRequest, deadline: float, bill: Bill, tried: list[tuple[str, Fault]]) -> Reply | None:
        """The reply of one source, or None with its faults in `tried`."""
        retry, breaker, clock = self.office.settings.retry, self.office.breaker(source.name), self.office.clock
        for attempt in range(retry.attempts):
            if not breaker.admits(clock.monotonic()):
                tried.append((source.name, Fault("breaker_open", sent=False, next="elsewhere")))
                return None
            left_s = deadline - clock.monotonic()
            if left_s <= 0 and source.metered:
                breaker.cut()
                tried.append((source.name, Fault("timeout", sent=False, next="elsewhere", message="the deadline has passed")))
                return None
            if (unpaid := await bill.another(len(tried))) is not None:
                breaker.cut()
                tried.append((source.name, unpaid))
                return None
            result = await self._attempt(source, request, min(left_s, retry.attempt_s))
            if isinstance(result, Reply):
                breaker.succeeded()
                return result
            tried.append((source.name, result))
            bill.uncertain = result.sent and result.charged
            if result.next != "again":
                breaker.succeeded() if result.sent else breaker.cut()
                return None
            breaker.failed(clock.monotonic())
            wait = max(result.wait_s, min(retry.longest_wait_s, retry.first_wait_s * 2**attempt) * (0.5 + self.office.jitter() / 2))
            if attempt + 1 >= retry.attempts or clock.monotonic() + wait >= deadline:
                return None
            await self.office.sleep(wait)
        return None

    async def _attempt(self, source: Source, request: ModelRequest, left_s: float) -> Reply | Fault:
        """One attempt; what runs in this process has no limit but the run's. Raises what the source does not classify."""
        limit = asyncio.timeout(max(0.0, left_s) if source.metered else None)
        seated = False
        try:
            async with limit, self.office.seats(source.name):
                seated = True
                return await source.ask(request, self.office.wire)
        except TimeoutError as error:
            if limit.expired():
                return NO_ANSWER if seated else NO_SEAT
            return self._judged(source, error)
        except Exception as error:
            return self._judged(source, error)
        except BaseException:
            self.office.breaker(source.name).cut()
            raise

    def _judged(self, source: Source, error: Exception) -> Fault:
        fault = source.classify(error)
        if fault is None:
            self.office.breaker(source.name).cut()
            raise error
        return fault


async def _noted(entry: Awaitable[None]) -> None:
    """A reply that is there, or a failure that is known, is not lost to the ledger: the charge stays held, and that is told."""
    try:
        await entry
    except DbError as error:
        _log.warning("a charge could not be settled and stays held: %s", error)


def _check(cache: str, **named: str | None) -> None:
    """A caller of `chat()` without the adapter is held to the same: nothing blank, a cache mode there is."""
    blank = next((name for name, value in named.items() if value is not None and is_blank(value)), None)
    if blank is not None:
        raise ModelCallFailed("binding_rejected", sent=False, key=PREFIX + blank, message=f"{blank} is blank")
    if cache not in CACHE_MODES:
        message = f"cache is one of {', '.join(CACHE_MODES)}, not {cache!r}"
        raise ModelCallFailed("binding_rejected", sent=False, key=f"{PREFIX}cache", message=message)
