"""A phase that is tried again asks its model again: a kept reply would fail it the same way."""

from __future__ import annotations

import asyncio
import json

from polyloop.app.api import open_store
from polyloop.app.phases import carry_out, load_flow
from polyloop.testing.fake_openai import FakeOpenAI, said
from tests.gateway.desk import DONE

REQUEST = """
tools = ["workspace_write", "submit"]
completes = ["submit"]
[agent]
id = "a"
[budget]
max_iterations = 5
[[segments]]
name = "task"
text = "Write the plan."
"""
WROTE = {"action": {"tool": "workspace_write", "args": {"path": "plan.txt", "text": "the plan"}}}


def test_the_second_attempt_is_asked_anew(tmp_path):
    (tmp_path / "r.toml").write_text(REQUEST)
    with FakeOpenAI([said(DONE), said(json.dumps(WROTE)), said(DONE)]) as server:
        flow = f'id = "f"\nworkspace = "ws"\nmodel = "openai:m@{server.url}"\n[[phases]]\nname = "plan"\nrequest = "r.toml"\n'
        (tmp_path / "f.toml").write_text(flow + 'budget = {max_valid_steps = 5}\nrequired = ["plan.txt"]\nattempts = 2\n')

        async def go() -> tuple[str, int]:
            async with open_store(tmp_path / "runs.db") as runs:
                result = await carry_out(runs, *load_flow(tmp_path / "f.toml", "local"))
                return result.state, result.phases[0].attempt

        assert asyncio.run(go()) == ("completed", 2)
        assert [len(body["messages"]) for body in server.seen] == [1, 1, 3]
