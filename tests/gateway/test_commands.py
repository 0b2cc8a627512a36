"""`polyloop gateway chat|cache|usage|erase|record`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from polyloop.cli.main import app
from polyloop.gateway.script import parse
from polyloop.testing.fake_openai import FakeOpenAI, Fault, said
from tests.gateway.desk import DONE, counting, ran


def gateway(folder: Path, *words: str, lang: str | None = None) -> tuple[int, Any]:
    asked = [*words, "--lang", lang] if lang else [*words, "--json"]
    done = CliRunner().invoke(app, ["gateway", *asked, "--store", str(folder / "runs.db")], env={"POLYLOOP_HOME": str(folder)}, input="from stdin")
    assert done.stdout, done.exception
    return done.exit_code, done.stdout if lang else json.loads(done.stdout)


def test_a_call_is_kept_counted_and_forgotten(tmp_path):
    with FakeOpenAI([said("你好", usage=(1000, 10))]) as server:
        model = f"openai:m@{server.url}"
        (tmp_path / "gateway.toml").write_text(f'[sources."{model}"]\nprice = {{input = 2, output = "10"}}\n')
        first = gateway(tmp_path, "chat", model, "hello", "--namespace", "ns", "--session", "s", "--params", '{"max_tokens": 9}')
        assert first == (0, {
            "text": "你好", "toolCalls": [], "finishReason": "stop", "servedBy": model, "cached": False, "attempts": 1,
            "usage": {"input": 1000, "output": 10},
        })  # fmt: skip
        assert server.seen[0]["max_tokens"] == 9
        again = gateway(tmp_path, "chat", model, "hello", "--namespace", "ns", "--params", '{"max_tokens": 9}')[1]
        assert (again["cached"], len(server.seen)) == (True, 1)
    assert gateway(tmp_path, "cache")[1]["namespaces"][0]["replies"] == 1
    used = {"session": "s", "source": model, "calls": 1, "input": 1000, "output": 10, "held": "0", "spent": "0.0021", "unknownCalls": 0}
    assert gateway(tmp_path, "usage")[1] == {"tenant": "local", "usage": [used]}
    assert "0.0021" in gateway(tmp_path, "usage", lang="zh")[1]
    assert gateway(tmp_path, "erase", "--tenant", "other")[1]["erased"] == 0
    assert gateway(tmp_path, "erase", "--namespace", "ns") == (0, {"tenant": "local", "namespace": "ns", "erased": 1})
    assert gateway(tmp_path, "cache", lang="en") == (0, "Nothing.\n")
    assert len(gateway(tmp_path, "usage")[1]["usage"]) == 1


FAILURES = {
    "refused by the server": ((), Fault("status", 400), 2, "validation", True),
    "unknown to it": ((), Fault("status", 401), 6, "authentication_required", True),
    "a blank namespace": (("--namespace", " "), said("x"), 2, "validation", False),
    "no such mode": (("--namespace", "n", "--cache", "x"), said("x"), 2, "validation", False),
    "a parameter of ours": (("--params", '{"model": "x"}'), said("x"), 2, "validation", False),
}


@pytest.mark.parametrize(("more", "answer", "code", "kind", "sent"), FAILURES.values(), ids=FAILURES)
def test_a_failed_call_says_why(tmp_path, more, answer, code, kind, sent):
    with FakeOpenAI([answer]) as server:
        exit_code, told = gateway(tmp_path, "chat", f"openai:m@{server.url}", "hello", *more)
    error = told["error"]
    assert (exit_code, error["kind"], error["details"]["sent"], error["executionStarted"]) == (code, kind, sent, None if sent else False)


def test_for_people_only_the_text(tmp_path):
    with FakeOpenAI([said("你好")]) as server:
        assert gateway(tmp_path, "chat", f"openai:m@{server.url}", "-", lang="zh") == (0, "你好\n")
        assert server.seen[0]["messages"][0]["content"] == "from stdin"


def test_a_run_is_recorded_as_a_script(tmp_path):
    with FakeOpenAI([counting()]) as server:
        ran(tmp_path, "local", f"openai:m@{server.url}", "r1")
    code, text = gateway(tmp_path, "record", "r1", lang="en")
    assert (code, [line.text for line in parse("s", text.encode())]) == (0, [DONE.replace("done", "reply 1")])
    assert gateway(tmp_path, "record", "r2")[0] == 2


def test_a_cap_stops_a_call(tmp_path):
    with FakeOpenAI([said("x")]) as server:
        (tmp_path / "gateway.toml").write_text("[caps]\ntenant = 1\n")
        code, told = gateway(tmp_path, "chat", f"openai:m@{server.url}", "hello")
        assert (code, told["error"]["details"]["code"], len(server.seen)) == (8, "price_unknown", 0)


@pytest.mark.parametrize("words", [("chat", "nope:x", "hi"), ("chat", "openai:m@http://h", "hi", "--params", "[]")])
def test_bad_arguments_are_refused(tmp_path, words):
    assert gateway(tmp_path, *words)[0] == 2


def test_settings_that_cannot_be_read_are_told(tmp_path):
    (tmp_path / "gateway.toml").write_text("caps = 3")
    code, told = gateway(tmp_path, "chat", "openai:m@http://h", "hi")
    assert (code, "gateway.toml" in told["error"]["message"]) == (2, True)


def test_a_store_that_is_not_there_has_nothing_and_is_not_made(tmp_path):
    assert gateway(tmp_path, "usage")[1]["usage"] == []
    assert gateway(tmp_path, "erase")[1]["erased"] == 0
    assert not (tmp_path / "runs.db").exists()
