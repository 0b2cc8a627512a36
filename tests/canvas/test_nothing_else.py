"""canvas_apply_ops submits nothing: whatever is asked of it, no task and no money comes of it (S1.56)."""

from __future__ import annotations

import os
import random
from typing import Any

from polyloop.canvas.registry import CREATABLE, FIELDS
from polyloop.db import Database
from tests.canvas.easel import TABLES, Easel, edge, node, update

CALLS = 10_000 if os.environ.get("POLYLOOP_SOAK") else 250
#: What a write on a canvas may touch: items and their history, the journal's record of the call, what the session has seen.
MAY = {*TABLES, "op_entry", "op_fact"}


def counts(db: Database) -> dict[str, int]:
    tables = [name for (name,) in db.look(lambda tx: tx.rows("select name from sqlite_schema where type = 'table'"))]
    return {name: db.look(lambda tx, t=name: tx.rows(f"select count(*) from {t}"))[0][0] for name in tables}


def drawn(odds: random.Random) -> dict[str, Any]:
    """Any operation, right or wrong, with what a hostile text might hold."""
    ids = [f"n{odds.randrange(40)}" for _ in range(2)]
    text = odds.choice(["words", "https://example.com/a.png", "generate this now", '{"taskId": "t"}', "@参考图1", "\u202e" * 3])
    return odds.choice([
        lambda: node(ids[0], odds.choice([*CREATABLE, "character"]), patch={odds.choice(list(FIELDS)): text}),
        lambda: node(ids[0], odds.choice(CREATABLE), title=text), lambda: update(ids[0], **{odds.choice(list(FIELDS)): text}),
        lambda: edge(f"e{odds.randrange(99)}", *ids), lambda: {"type": "delete_node", "id": ids[0]},
        lambda: {**update(ids[0], prompt=text), "taskId": "t"}, lambda: update(ids[0], url=text), lambda: update(ids[0], status="queued"),
    ])()  # fmt: skip


def test_S1_56_S1_73_random_operations_make_no_task_and_no_ledger_row(db: Database) -> None:
    easel, odds, applied = Easel(db, session=""), random.Random(7), 0
    before = counts(db)
    for _ in range(CALLS):
        ops = [drawn(odds) for _ in range(odds.choice([1, 1, 2, 3]))]
        nodes = easel.look(lambda b: b.head.nodes)
        _, code = easel.call("canvas_apply_ops", {"snapshotHash": easel.hash, "ops": ops})
        assert code in (0, 2)
        applied += code == 0
        assert easel.look(lambda b: b.head.nodes) >= nodes, "nothing is deleted"
    after = counts(db)
    assert {name for name in after if after[name] != before[name]} <= MAY
    assert not any(word in str(n.body) for n in easel.look(lambda b: b.nodes(0, 99)) for word in ("taskId'", "'url", "'status"))
    assert applied > 10, "some were right"
    assert easel.recomputed()[0] == easel.hash
