"""A store in a folder, an office on it, and a run of one call: how the tests of the gateway look at it from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from polyloop.app.api import open_store, resume, run
from polyloop.db import Database
from polyloop.gateway.cache import SCHEMA
from polyloop.gateway.gateway import Gateway
from polyloop.gateway.office import Office
from polyloop.gateway.settings import Settings
from polyloop.gateway.sources import seated, source
from polyloop.kernel.objects import Agent, Budget, Request, RunResult, Segment
from polyloop.kernel.records import Part
from polyloop.kernel.seams import Message, Reply
from polyloop.testing.fake_openai import said
from polyloop.toolbox.registry import Registry
from polyloop.toolbox.submit import Submit

DONE = '{"reflection": "r", "plan": "p", "action": {"tool": "submit", "args": {"summary": "done"}}}'


def reply_of(number: int) -> dict[str, Any]:
    """A completing reply that can be told from all others."""
    return said(DONE.replace('"done"', f'"reply {number}"'))


def counting() -> Any:
    """An answer that counts: reply 1, reply 2, ..."""
    asked: list[dict[str, Any]] = []

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        asked.append(body)
        return reply_of(len(asked))

    return answer


def request(run_id: str, binding: Mapping[str, str] | None = None, text: str = "Same text.", **more: Any) -> Request:
    more.setdefault("agent", Agent("a"))
    return Request(run_id, budget=Budget(5, 5), segments=(Segment("task", "user", text),), binding=dict(binding or {}), **more)


async def started(folder: Path, tenant: str, model: Any, asked: Request, tools: Sequence[Any] = ()) -> RunResult:
    """Run a request in the folder's store, with a completing `submit`."""
    async with open_store(folder / "runs.db", tenant) as store:
        return await run(asked, store=store, model=model, tools=Registry([Submit(), *tools]))


async def resumed(folder: Path, tenant: str, model: Any, asked: Request) -> RunResult:
    async with open_store(folder / "runs.db", tenant) as store:
        return await resume(asked, store=store, model=model, tools=Registry([Submit()]))


def ran(folder: Path, tenant: str, model: Any, run_id: str, binding: Mapping[str, str] | None = None, **more: Any) -> RunResult:
    return asyncio.run(started(folder, tenant, model, request(run_id, binding, **more)))


# --- the gateway alone ---------------------------------------------------------------------------------------------

MESSAGES = (Message("user", (Part(text="hello"),)),)


def office(folder: Path | None = None, tenant: str = "local", settings: Settings | None = None, **more: Any) -> Office:
    """An office with a store in the folder, or without one."""
    opened = None if folder is None else lambda: Database.open(folder / "runs.db", [SCHEMA])
    return Office(tenant, settings, opened, **more)


def gateway(model: str, at: Office) -> Gateway:
    """The gateway of a model name in an office."""
    named = seated(source(model, lambda _: b""), at)
    return named.gateway  # type: ignore[attr-defined]  # every named model has one


async def until(true: Callable[[], bool]) -> None:
    """Wait for what another thread does; a minute is a failed test."""
    for _ in range(6000):
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen")


async def chat(through: Gateway, model: str = "m", text: str = "hello", **more: Any) -> Reply:
    return await through.chat((Message("user", (Part(text=text),)),), model=model, params=more.pop("params", {}), **more)
