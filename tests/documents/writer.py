"""A process that writes documents and is meant to be killed: `python writer.py STORE TENANT FIRST COUNT TIMES`.

Prints the key of each write before it is made and after its receipt is there.
"""

from __future__ import annotations

import asyncio
import sys

from polyloop.contract.receipt import Receipt
from polyloop.db import Database
from polyloop.documents.runtime import DocRuntime
from polyloop.documents.store import SCHEMAS
from polyloop.ids import uuid7


async def work(store: str, tenant: str, first: int, count: int, times: int) -> None:
    db = Database.open(store, SCHEMAS)
    runtime = DocRuntime(db, tenant, lambda: 0, uuid7)
    for n in range(first, first + count):
        for _ in range(times):
            sys.stdout.write(f"begin {n}\n")
            sys.stdout.flush()
            args = {"title": "D", "command": "append", "content": f"line {n}\n", "operationKey": f"key {n}"}
            receipt = await runtime.call("update", args)
            assert isinstance(receipt, Receipt), receipt
            assert receipt.ok
            sys.stdout.write(f"done {n}\n")
            sys.stdout.flush()
    db.close()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])))
