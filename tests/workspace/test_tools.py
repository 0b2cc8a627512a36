"""The tools as a run uses them: through a registry and its actions."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from polyloop.kernel.seams import Action, NotStarted, Outcome, Unknown
from polyloop.toolbox.actions import ToolActions
from polyloop.toolbox.registry import Registry
from polyloop.workspace import Workspace, limits, workspace_tools


def action(tool: str, key: str = "k", attempt: int = 1, **args: Any) -> Action:
    return Action(f"workspace_{tool}", args, key, 0, "r", "local", attempt=attempt)


Body = Callable[[ToolActions, Workspace], Awaitable[Any]]


def run(folder: Path, body: Body) -> Any:
    async def main() -> Any:
        workspace = Workspace(folder)
        try:
            return await body(ToolActions(Registry.resolve(["workspace_*"], workspace_tools(workspace))), workspace)
        finally:
            workspace.close()

    return asyncio.run(main())


def told(outcome: Any) -> Any:
    assert isinstance(outcome, Outcome)
    return json.loads(outcome.observation[0].text)  # type: ignore[arg-type]  # an inline text


def test_the_six_tools_with_their_rules() -> None:
    registry = Registry.resolve(["workspace_*"], workspace_tools(Workspace("nowhere")))
    assert {name: (s.effect, s.replay, s.kind, s.completes) for name, s in registry.specs.items()} == {
        "workspace_read_lines": ("read", "rerun", "async", False),
        "workspace_write": ("write", "probe", "async", False),
        "workspace_grep": ("read", "rerun", "async", False),
        "workspace_list": ("read", "rerun", "async", False),
        "workspace_exists": ("read", "rerun", "async", False),
        "workspace_checksum": ("read", "rerun", "async", False),
    }
    assert not Path("nowhere").exists()


CALLS = [
    ("write", {"path": "out/b.txt", "text": "x\n"}, {"path": "out/b.txt", "bytes": 2, "created": True}),
    ("read_lines", {"path": "a.txt", "start": 2.0, "count": 1}, {"lines": ["two"], "totalLines": 3, "eof": False, "nextStart": 3}),
    ("grep", {"pattern": "^t", "limit": 1}, {"hits": [{"path": "a.txt", "line": 2, "text": "two"}], "truncated": True, "stopReason": "limit"}),
    ("list", {}, {"files": [{"path": "a.txt", "bytes": 14}], "complete": True, "hasMore": False}),
    ("list", {"glob": "*.md"}, {"files": [], "count": 0, "complete": True}),
    ("exists", {"path": "a.txt"}, {"path": "a.txt", "exists": True, "type": "file"}),
    ("exists", {"path": "b.txt"}, {"path": "b.txt", "exists": False}),
    ("checksum", {"path": "a.txt"}, {"path": "a.txt", "bytes": 14}),
]


@pytest.mark.parametrize(("tool", "args", "answer"), CALLS, ids=[f"{t}-{i}" for i, (t, _, _) in enumerate(CALLS)])
def test_S2_25_the_six_operations_answer_in_camel_case_json(tmp_path: Path, tool: str, args: dict[str, Any], answer: dict[str, Any]) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")

    async def body(actions: ToolActions, ws: Workspace) -> None:
        outcome = await actions.execute(action(tool, **args))
        assert outcome.status == "ok"  # type: ignore[union-attr]  # an outcome
        assert answer.items() <= told(outcome).items()

    run(tmp_path, body)


REFUSED = [
    ("read_lines", {"path": "../secret"}, "permission_denied"),
    ("read_lines", {"path": "none"}, "not_found"),
    ("write", {"path": "a.txt", "text": "x"}, "conflict"),
    ("write", {"path": "a.txt", "text": "x", "ifAbsent": True}, "conflict"),
    ("write", {"path": "a.txt", "text": "x", "expectedSha256": "0" * 64}, "conflict"),
    ("write", {"path": "a.txt", "text": "x", "ifAbsent": True, "expectedSha256": "0" * 64}, "validation"),
    ("write", {"path": "b.txt", "text": "\ud800"}, "validation"),
    ("write", {"path": "/b.txt", "text": "x"}, "permission_denied"),
    ("grep", {"pattern": "(?=x)"}, "validation"),
    ("list", {"continuation": "AAAA"}, "pagination"),
]


@pytest.mark.parametrize(("tool", "args", "kind"), REFUSED, ids=[f"{t}-{k}-{i}" for i, (t, _, k) in enumerate(REFUSED)])
def test_refusals_are_typed_and_change_nothing(tmp_path: Path, tool: str, args: dict[str, Any], kind: str) -> None:
    (tmp_path / "a.txt").write_text("here")

    async def body(actions: ToolActions, ws: Workspace) -> None:
        outcome = await actions.execute(action(tool, **args))
        assert isinstance(outcome, Outcome)
        assert (outcome.status, outcome.code, told(outcome)["error"]["kind"]) == ("error", kind, kind)

    run(tmp_path, body)
    assert [p.name for p in tmp_path.iterdir() if not p.name.startswith(".polyloop")] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "here"


def test_an_explicit_word_replaces(tmp_path: Path) -> None:
    async def body(actions: ToolActions, ws: Workspace) -> None:
        first = told(await actions.execute(action("write", "k1", path="f", text="1")))
        second = told(await actions.execute(action("write", "k2", path="f", text="2", expectedSha256=first["sha256"])))
        third = told(await actions.execute(action("write", "k3", path="f", text="3", ifAbsent=False)))
        assert [r["created"] for r in (first, second, third)] == [True, False, False]
        stale = await actions.execute(action("write", "k4", path="f", text="4", ifAbsent=False, expectedSha256=first["sha256"]))
        assert told(stale)["error"]["details"] == {"path": "f", "expected": first["sha256"], "found": third["sha256"]}

    run(tmp_path, body)
    assert (tmp_path / "f").read_text() == "3"


def test_S2_28_a_write_is_settled_by_its_key(tmp_path: Path) -> None:
    async def body(actions: ToolActions, ws: Workspace) -> None:
        write = action("write", path="f", text="x")
        assert await actions.settle(write, None) == NotStarted()
        receipt = await actions.execute(write)
        assert await actions.settle(write, None) == receipt
        assert await actions.execute(write) == receipt, "rerun by mistake: answered from the log"
        assert await actions.settle(action("write", "other"), None, fence=True) == NotStarted()
        fenced = await actions.execute(action("write", "other", path="g", text="x"))
        assert fenced.code == "conflict"  # type: ignore[union-attr]  # an outcome
        assert (await actions.execute(action("write", "other", 2, path="g", text="x"))).status == "ok"  # type: ignore[union-attr]  # an outcome
        assert await actions.settle(action("read_lines", path="f"), None) == Unknown()

    run(tmp_path, body)


def over() -> bool:
    """No thread of ours is working. One that has given its answer may take a moment to be gone."""
    for thread in threading.enumerate():
        if thread.name == "polyloop-work":
            thread.join(0.2)
    return all(t.name != "polyloop-work" for t in threading.enumerate())


def test_S2_22_a_cancelled_write_has_landed_or_never_will(tmp_path: Path) -> None:
    async def body(actions: ToolActions, ws: Workspace) -> None:
        landed = 0
        for n in range(30):
            write = action("write", f"k{n}", path=f"f{n}", text="x" * 100_000)
            task = asyncio.ensure_future(actions.execute(write))
            await asyncio.sleep(n / 2000)
            task.cancel()
            done = (await asyncio.gather(task, return_exceptions=True))[0]
            there = (tmp_path / f"f{n}").exists()
            assert there or not isinstance(done, Outcome)
            settled = await actions.settle(write, None, fence=True)
            assert isinstance(settled, Outcome) == there
            landed += there
        await asyncio.sleep(0.05)
        assert sum((tmp_path / f"f{n}").exists() for n in range(30)) == landed

    run(tmp_path, body)
    assert over()


def test_a_cancelled_search_stops_soon_and_leaves_no_thread(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"line\n" * 2_000_000)

    async def body(actions: ToolActions, ws: Workspace) -> None:
        task = asyncio.ensure_future(actions.execute(action("grep", pattern=r"\Anothing")))  # line by line
        await asyncio.sleep(0.05)
        began = time.process_time()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.process_time() - began < 0.5  # to the end it takes seconds
        assert over()

    run(tmp_path, body)


def test_long_work_leaves_the_loop_free(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"line\n" * 400_000)
    (tmp_path / "small").write_bytes(b"line\n")

    async def body(actions: ToolActions, ws: Workspace) -> list[int]:
        turns = []
        for call in (
            action("grep", pattern="nothing"),
            action("checksum", path="big"),
            action("checksum", path="small"),
            action("exists", path="big"),
        ):
            task, count = asyncio.ensure_future(actions.execute(call)), 0
            while not task.done():
                await asyncio.sleep(0)
                count += 1
            turns.append(count)
        return turns

    assert limits.INLINE_BYTES < 2_000_000
    search, large, small, exists = run(tmp_path, body)
    assert small == exists == 1, "small files take less time than a thread"
    assert search > 1
    assert large > 1


def test_a_second_run_is_refused_in_every_tool(tmp_path: Path) -> None:
    async def body(actions: ToolActions, ws: Workspace) -> None:
        ws.hold()
        other = ToolActions(Registry.resolve(["workspace_*"], workspace_tools(Workspace(tmp_path))))
        for call in (action("list"), action("exists", path="f"), action("write", path="f", text="x")):
            outcome = await other.execute(call)
            assert (outcome.status, outcome.code) == ("error", "owned_elsewhere")  # type: ignore[union-attr]  # an outcome

    run(tmp_path, body)
    assert not (tmp_path / "f").exists()
