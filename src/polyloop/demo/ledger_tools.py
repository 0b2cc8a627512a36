"""Tools of the demonstration: a ledger file where each entry carries the key of the action that wrote it."""

import os
import time
from pathlib import Path

from polyloop import ToolContext, tool
from polyloop.kernel.records import Part
from polyloop.kernel.seams import NotStarted, Outcome, Settled

LEDGER = Path("ledger.txt")
#: How long the write stays open after it has landed: the window in which the demonstration kills its worker.
WINDOW_S = 0.4


def settle_entry(key: str, token: str | None, fence: bool) -> Settled:  # noqa: FBT001  # the signature every settle function has
    """Did the entry with this key land? The ledger itself knows. Its writer is dead when this is asked, so absent means never."""
    entries = LEDGER.read_text().splitlines() if LEDGER.exists() else []
    found = [line for line in entries if line.startswith(key)]
    return Outcome("ok", (Part(text=f"entry {entries.index(found[0]) + 1} is in the ledger"),)) if found else NotStarted()


@tool(effect="write", replay="probe", kind="process", settle=settle_entry)
def append_entry(text: str, context: ToolContext) -> str:
    """Append one entry to the ledger."""
    with LEDGER.open("a") as ledger:
        ledger.write(f"{context.key} {text}\n")
        ledger.flush()
        os.fsync(ledger.fileno())
    time.sleep(WINDOW_S)
    return f"entry {len(LEDGER.read_text().splitlines())} is in the ledger"


@tool(effect="read", kind="process")
def read_ledger() -> str:
    """All entries, without their keys."""
    return "\n".join(line.partition(" ")[2] for line in LEDGER.read_text().splitlines())
