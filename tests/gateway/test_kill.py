"""A process killed while its model is being asked: the run goes on elsewhere, and the call is charged once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess

from polyloop.app.gateway import look
from polyloop.gateway import accounts
from polyloop.testing.fake_openai import FakeOpenAI, Fault
from tests import outside
from tests.gateway.desk import counting, until
from tests.seeds.test_s2_gateway import HEAD

COMMAND = [*outside.POLYLOOP, "run", "r.toml", "--run-id", "r1", "--store", "runs.db", "--json"]


def test_a_call_asked_again_after_a_kill_is_charged_once(tmp_path):
    with FakeOpenAI([Fault("silent"), counting()]) as server:
        model = f"openai:m@{server.url}"
        (tmp_path / "r.toml").write_text(HEAD.format(model=model) + '"gateway.session_id" = "s"\n')
        (tmp_path / "gateway.toml").write_text(f'[sources."{model}"]\nprice = {{call = 4}}\n[caps]\ntenant = 4\n')
        env = {**os.environ, "POLYLOOP_HOME": str(tmp_path)}
        child = outside.start(*COMMAND, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        asyncio.run(until(lambda: bool(server.seen)))
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        [held] = look(str(tmp_path / "runs.db"), "local", accounts.usage)
        assert (held.calls, held.held_micro, held.spent_micro) == (1, 4_000_000, 0)
        done = outside.run(*COMMAND, cwd=tmp_path, env=env, capture_output=True, text=True)
        result = json.loads(done.stdout)
        assert (result["reason"], result["result"], len(server.seen)) == ("completed", {"summary": "reply 1"}, 2)
        [used] = look(str(tmp_path / "runs.db"), "local", accounts.usage)
        assert (used.session, used.calls, used.held_micro, used.spent_micro) == ("s", 1, 0, 4_000_000)
