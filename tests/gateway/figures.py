"""What a call costs. `python -m tests.gateway.figures` prints it; the limits stand in test_load.py.

CPU of a call through the gateway beside a bare post by httpx2 of the same body to the same server (in another process); a cache
hit beside a bare read of the same row by apsw plus the digest of the same list; memory of 1,000 calls at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import httpx2

from polyloop.kernel.records import canonical
from polyloop.testing.fake_openai import FakeOpenAI, said
from tests.gateway.desk import MESSAGES, chat, gateway, office


def echo(body: dict[str, Any]) -> dict[str, Any]:
    return said(body["messages"][-1]["content"])


@contextmanager
def elsewhere() -> Any:
    """An echoing server in another process: its work is not ours."""
    child = subprocess.Popen([sys.executable, "-m", "tests.gateway.figures", "serve"], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        yield child.stdout.readline().strip()
    finally:
        child.terminate()
        child.communicate()


def serve() -> None:
    with FakeOpenAI([echo]) as server:
        sys.stdout.write(server.url + "\n")
        sys.stdout.flush()
        sys.stdin.read()


async def crossed(url: str, calls: int) -> int:
    """How many of so many calls at once got another's reply."""
    at = office()
    through = gateway(f"openai:m@{url}", at)
    replies = await asyncio.gather(*(chat(through, text=f"nonce {n}", call_id=f"c{n}") for n in range(calls)))
    await at.aclose()
    return sum(r.text != f"nonce {n}" for n, r in enumerate(replies))


def rss_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def cpu_ms(times: int, *calls: Callable[[], Awaitable[Any]]) -> list[float]:
    """CPU milliseconds of each of these calls: the least of eight rounds, taken in turns, so that neither a busy machine nor its pace counts."""
    least = [float("inf")] * len(calls)
    for _ in range(8):
        for at, call in enumerate(calls):
            began = time.process_time()
            for _ in range(times):
                await call()
            least[at] = min(least[at], (time.process_time() - began) * 1000 / times)
    return least


async def call_cost(url: str, times: int = 40) -> tuple[float, float]:
    """CPU milliseconds of a call through the gateway, and of a bare post."""
    at = office()
    through = gateway(f"openai:m@{url}", at)
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    async with httpx2.AsyncClient() as client:

        async def bare() -> None:
            (await client.post(f"{url}/chat/completions", json=body)).json()

        await bare()
        ours, theirs = await cpu_ms(times, lambda: chat(through), bare)
    await at.aclose()
    return ours, theirs


async def hit_cost(folder: Path, url: str, times: int = 200) -> tuple[float, float]:
    """CPU milliseconds of a cache hit, and of a bare read of its row plus the digest of the list it is found by."""
    at = office(folder)
    through = gateway(f"openai:m@{url}", at)
    await chat(through, cache_namespace="ns")
    connection = apsw.Connection(str(folder / "runs.db"))
    [[digest]] = connection.execute("select digest from gateway_reply")

    async def bare() -> None:
        hashlib.sha256(canonical([1, "local", None, "ns", "m", list(MESSAGES), {}, None])).hexdigest()
        [[body]] = connection.execute("select body from gateway_reply where digest = ?", (digest,))
        json.loads(body)

    ours, theirs = await cpu_ms(times, lambda: chat(through, cache_namespace="ns"), bare)
    await at.aclose()
    return ours, theirs


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, elsewhere() as url:
        asyncio.run(crossed(url, 50))
        before = rss_mb()
        print(f"crossed of 1,000 at once: {asyncio.run(crossed(url, 1000))}; memory grew {rss_mb() - before:.0f} MB")
        ours, bare = asyncio.run(call_cost(url))
        print(f"a call: {ours:.2f} ms CPU, bare post {bare:.2f} ms: {ours / bare:.2f}x")
        ours, bare = asyncio.run(hit_cost(Path(folder), url))
        print(f"a cache hit: {ours * 1000:.0f} us CPU, bare read and digest {bare * 1000:.0f} us: {ours / bare:.2f}x")


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main()
