"""Documents: what an import costs, and an append and a page, whatever their length and depth. `python benchmarks/documents.py [--quick]`.

Scratch: $BENCH_TMP (on the disk under test), else a temporary folder. Ratios are medians of interleaved rounds.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from polyloop.contract.receipt import Receipt
from polyloop.db import Database
from polyloop.documents import requests as ask
from polyloop.documents.runtime import DocRuntime
from polyloop.documents.service import serve
from polyloop.documents.store import EMPTY, OPEN, SCHEMAS
from polyloop.files.folder import folder_of
from polyloop.ids import uuid7

QUICK = "--quick" in sys.argv
BLOCKS = 10_000
NODES = 100_000 if QUICK else 1_000_000
ROUNDS = 60 if QUICK else 300
PAGE = 50
IMPORT_BYTES = 1 << 20
IMPORT_ROUNDS = 1 if QUICK else 5


def fill(db: Database, tenant: str, count: int) -> None:
    """`count` documents, as if made one after the other."""
    numbers = "with recursive n(x) as (select 1 union all select x + 1 from n where x < ?)"

    def work(tx: Any) -> None:
        tx.run("insert into doc_tenant values (?, ?)", tenant, count)
        tx.run(f"{numbers} insert into doc_node select ?, 'n_' || x, 'document', 1, '{EMPTY}', 0, 0, x from n", count, tenant)  # noqa: S608  # our own
        place = "select ?, 'n_' || x, x, ?, x, 'document', 'title ' || x, 'root', 'live' from n"
        tx.run(f"{numbers} insert into doc_place {place}", count, tenant, OPEN)

    db.write_sync(work)


def ratio(one: Callable[[], float], other: Callable[[], float], rounds: int = ROUNDS) -> tuple[float, float, float]:
    """Medians of both and their ratio, measured turn by turn."""
    pairs = [(one(), other()) for _ in range(rounds)]
    first, second = (statistics.median(side) for side in zip(*pairs, strict=True))
    return first, second, second / first


def appends(db: Database, loop: asyncio.AbstractEventLoop) -> None:
    runtime = DocRuntime(db, "a", lambda: 0, uuid7)

    def call(op: str, **args: Any) -> Receipt:
        receipt = loop.run_until_complete(runtime.call(op, args))
        assert isinstance(receipt, Receipt), receipt
        assert receipt.ok
        return receipt

    short, long = (call("create", title=f"{n} blocks", content="word\n\n" * n).data["nodeId"] for n in (1, BLOCKS))

    def append(node_id: str) -> float:
        began = time.perf_counter()
        call("update", nodeId=node_id, command="append", content="one more line\n")
        return (time.perf_counter() - began) * 1000

    before = db.commits
    append(short)
    print(f"commits of an append              {db.commits - before}")
    first, second, times = ratio(lambda: append(short), lambda: append(long))
    print(f"append to 1 / {BLOCKS} blocks     {first:.2f} / {second:.2f} ms   ratio {times:.2f}   (limit 1.3)")

    def pages() -> int:
        return db.look(lambda tx: tx.rows("pragma page_count"))[0][0] * 4096

    sizes: list[float] = []
    for node_id in (short, long):
        start = pages()
        for _ in range(1000):
            append(node_id)
        sizes.append((pages() - start) / 1000)
    print(f"bytes of an append, same two      {sizes[0]:.0f} / {sizes[1]:.0f}   ratio {sizes[1] / sizes[0]:.2f}   (limit 1.3)")


def deep_pages(db: Database) -> None:
    began = time.perf_counter()
    fill(db, "p", NODES)
    print(f"{NODES} nodes laid in              {time.perf_counter() - began:.1f} s")

    def page(cursor: int) -> float:
        began = time.perf_counter()
        reply = db.look(serve, "p", ask.Nodes(cursor=str(cursor), limit=PAGE, snapshot=str(NODES)))
        assert len(reply["items"]) == PAGE
        return (time.perf_counter() - began) * 1000

    first, second, times = ratio(lambda: page(0), lambda: page(NODES - 100))
    print(f"page of {PAGE}, first / at {NODES - 100}  {first:.3f} / {second:.3f} ms   ratio {times:.2f}   (limit 1.3)")


def imports(db: Database, loop: asyncio.AbstractEventLoop, folder: Path) -> None:
    """A Markdown file through the whole of an import, against the parser alone on the same text; CPU seconds of this process."""
    mixed = (Path(__file__).parents[1] / "tests/formats/fixtures/rich.markdown").read_text()
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    runtime = DocRuntime(db, "i", lambda: time.time_ns() // 1_000_000, uuid7, folder=folder_of(str(folder)))
    for kind, piece in (("mixed", mixed), ("prose", "Paragraph {n}, words and more words of it, some *marked*. " * 6 + "\n\n")):
        text = "".join(piece.replace("{n}", str(n)) for n in range(IMPORT_BYTES // len(piece.encode()) + 1))
        (folder / f"{kind}.md").write_text(text)

        def bare(text: str = text) -> float:
            began = time.process_time()
            parser.parse(text)
            return time.process_time() - began

        def whole(file: str = f"{kind}.md") -> float:
            began = time.process_time()
            told = loop.run_until_complete(runtime.call("import", {"file": file}))
            assert isinstance(told, dict), told
            return time.process_time() - began

        first, second, times = ratio(bare, whole, IMPORT_ROUNDS)
        print(f"parse / import {len(text.encode())} bytes, {kind}  {first:.2f} / {second:.2f} s   ratio {times:.2f}   (limit 2.5)")


def main() -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_TMP")) as folder:
        db = Database.open(Path(folder) / "store.db", SCHEMAS)
        loop = asyncio.new_event_loop()
        imports(db, loop, Path(folder))
        appends(db, loop)
        deep_pages(db)
        loop.close()
        db.close()


if __name__ == "__main__":
    main()
