"""Seed 002, how tenant isolation travels: GovDoc's own binding, moved over as the seed says, and run from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from polyloop.testing.fake_openai import FakeOpenAI
from tests.gateway.desk import counting
from tests.outside import command

HEAD = """
model = "{model}"
tools = ["submit"]
completes = ["submit"]
[agent]
id = "auditor"
[budget]
max_valid_steps = 50
max_iterations = 100
[[segments]]
name = "task"
text = "请审核同一段文字。"
[binding]
"""
#: The binding of the seed, for one tenant.
MOVED = {"case": "GovDoc-7", "gateway.cache_namespace": "命名空间-{t}", "gateway.tenant_id": "{t}"}


def polyloop(folder: Path, *words: str) -> Any:
    done = command(folder, *words)
    assert done.out, done.err
    return done.code, json.loads(done.out) if words[0] != "log" else [json.loads(line) for line in done.out.splitlines()]


def run(folder: Path, tenant: str, run_id: str, model: str, binding: dict[str, str]) -> Any:
    lines = [f"{json.dumps(k)} = {json.dumps(v.replace('{t}', tenant), ensure_ascii=False)}\n" for k, v in binding.items()]
    (folder / "r.toml").write_text(HEAD.format(model=model) + "".join(lines))
    return polyloop(folder, "run", "r.toml", "--run-id", run_id, "--tenant", tenant, "--store", "runs.db", "--json")


def test_S2_48_S2_47_the_final_criterion_the_same_text_and_two_tenants(tmp_path):
    with FakeOpenAI([counting()]) as server:
        model = f"openai:m@{server.url}"
        got = [run(tmp_path, tenant, "r1", model, MOVED)[1]["result"]["summary"] for tenant in ("甲", "乙")]
        assert (got, len(server.seen)) == (["reply 1", "reply 2"], 2)
        _, records = polyloop(tmp_path, "log", "r1", "--jsonl", "--tenant", "乙", "--store", "runs.db")
        assert records[0]["binding"]["gateway.cache_namespace"] == "命名空间-乙"
        assert "GovDoc-7" not in json.dumps(server.seen, ensure_ascii=False)


@pytest.mark.parametrize("key", ["session_id", "parent_call_id"])
def test_S2_45_a_binding_that_was_not_moved_over_is_told_at_the_first_call(tmp_path, key):
    with FakeOpenAI([counting()]) as server:
        code, result = run(tmp_path, "甲", "r1", f"openai:m@{server.url}", {key: "trace", **MOVED})
        assert (code, result["reason"], result["error"]["key"], len(server.seen)) == (1, "model_call_failed", key, 0)
        assert set(result["counters"].values()) == {0}


def test_S2_46_an_empty_namespace_is_refused(tmp_path):
    with FakeOpenAI([counting()]) as server:
        _, result = run(tmp_path, "甲", "r1", f"openai:m@{server.url}", {"gateway.cache_namespace": ""})
        assert (result["error"]["code"], result["error"]["key"], len(server.seen)) == ("binding_rejected", "gateway.cache_namespace", 0)


def test_S2_49_another_namespace_on_the_way_stops_the_run(tmp_path):
    with FakeOpenAI([counting()]) as server:
        model = f"openai:m@{server.url}"
        run(tmp_path, "甲", "r1", model, MOVED)
        code, answer = run(tmp_path, "甲", "r1", model, {**MOVED, "gateway.cache_namespace": "别的"})
        assert (code, len(server.seen)) == (7, 1)
        assert "gateway.cache_namespace" in json.dumps(answer["error"]["details"]["fields"])
