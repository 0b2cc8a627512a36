"""Bindings: what is forwarded, byte for byte; what is refused, at step 0, with the key named and nothing spent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyloop.contract.problem import ProblemError
from polyloop.gateway.bindings import GatewayModel, forwarded, looks_secret, refusal
from polyloop.kernel.objects import Agent
from polyloop.kernel.seams import ModelCallFailed, ModelRequest, Reply
from polyloop.testing.fake_openai import FakeOpenAI
from tests.gateway.desk import DONE, counting, ran, request, resumed


class Spy:
    """Somebody else's gateway: all it shares with ours is the shape of `chat()`."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []

    async def chat(self, messages, *, model, params, cache_namespace=None, tenant_id=None, session_id=None, parent_call_id=None, **rest):
        given_names = {"cache_namespace": cache_namespace, "tenant_id": tenant_id, "session_id": session_id, "parent_call_id": parent_call_id}
        self.got.append({k: v for k, v in given_names.items() if v is not None} | rest)
        return Reply(DONE)


NS = {"gateway.cache_namespace": "ns"}
REFUSED = {
    "no such parameter": ({"gateway.no_such_arg": "x", **NS}, "gateway.no_such_arg"),
    "meta": ({"gateway.meta": "x"}, "gateway.meta"),
    "no name": ({"gateway.": "x"}, "gateway."),
    "swallowed by **kwargs": ({"gateway.rest": "x"}, "gateway.rest"),
    "prefix twice": ({"gateway.gateway.tenant_id": "x"}, "gateway.gateway.tenant_id"),
    "empty": ({"gateway.cache_namespace": ""}, "gateway.cache_namespace"),
    "blanks": ({"gateway.tenant_id": " \t\u3000"}, "gateway.tenant_id"),
    "nothing to see": ({"gateway.session_id": "\u200b\u2060"}, "gateway.session_id"),
    **{name: ({f"gateway.{name}": "x"}, f"gateway.{name}") for name in ("messages", "model", "tools", "params", "stream", "timeout", "call_id")},
    "old session_id": ({"session_id": "s", **NS}, "session_id"),
    "old parent_call_id": ({"parent_call_id": "p"}, "parent_call_id"),
    "old and blank": ({"session_id": ""}, "session_id"),
}


@pytest.mark.parametrize(("binding", "key"), REFUSED.values(), ids=REFUSED)
def test_S2_45_S2_46_a_defence_ends_the_run_at_step_0_with_the_key_named(tmp_path, binding, key):
    spy = Spy()
    result = ran(tmp_path, "local", GatewayModel(spy, "m"), "r1", binding)
    assert (result.reason, result.counters.iterations, result.counters.valid_steps) == ("model_call_failed", 0, 0)
    assert (result.error["code"], result.error["key"], result.error["sent"]) == ("binding_rejected", key, False)
    assert spy.got == []


@pytest.mark.parametrize("name", ["script:s.jsonl", "openai"])
def test_the_defences_stand_before_every_source(tmp_path, monkeypatch, name):
    (tmp_path / "s.jsonl").write_text('{"text": "x"}\n')
    monkeypatch.chdir(tmp_path)
    with FakeOpenAI([counting()]) as server:
        model = name if name.startswith("script") else f"openai:m@{server.url}"
        result = ran(tmp_path, "local", model, "r1", {"gateway.meta": "x"})
        assert (result.error["code"], result.error["key"], result.counters.iterations, len(server.seen)) == ("binding_rejected", "gateway.meta", 0, 0)


def test_S2_41_S2_43_values_arrive_as_they_are_and_other_keys_stay_behind(tmp_path):
    spy = Spy()
    value = "  e\u0301 租户\u200d\u00a0甲 "
    binding = {"case": "GovDoc-7", "gateway.cache_namespace": value, "gateway.tenant_id": "acme", "Gateway.session_id": "no prefix"}
    ran(tmp_path, "acme", GatewayModel(spy, "m"), "r1", binding)
    assert spy.got == [{"cache_namespace": value, "tenant_id": "acme"}]


def test_S2_44_session_id_is_absent_unless_bound(tmp_path):
    spy = Spy()
    ran(tmp_path, "local", GatewayModel(spy, "m"), "r1", NS)
    ran(tmp_path, "local", GatewayModel(spy, "m"), "r2", {**NS, "gateway.session_id": "trace-1"})
    assert spy.got == [{"cache_namespace": "ns"}, {"cache_namespace": "ns", "session_id": "trace-1"}]


def test_S2_42_one_adapter_serves_two_tenants_at_once():
    spy = Spy()
    adapter = GatewayModel(spy, "m")

    async def both() -> None:
        await asyncio.gather(*(adapter.call(ModelRequest("c", (), {}, {"gateway.tenant_id": t}, 1)) for t in ("a", "b")))

    asyncio.run(both())
    assert sorted(g["tenant_id"] for g in spy.got) == ["a", "b"]


def test_another_tenants_coordinate_is_refused_before_anything_is_logged(tmp_path):
    with pytest.raises(ProblemError) as stop:
        ran(tmp_path, "a", GatewayModel(Spy(), "m"), "r1", {"gateway.tenant_id": "b"})
    assert (stop.value.problem.kind, stop.value.problem.details["field"]) == ("permission_denied", "binding.gateway.tenant_id")
    with pytest.raises(ProblemError) as none:
        asyncio.run(resumed(tmp_path, "a", GatewayModel(Spy(), "m"), request("r1")))
    assert none.value.problem.kind == "not_found"


@pytest.mark.parametrize("key", ["api_key", "gateway.accessToken", "openai.APIKey", "password", "client-secret"])
def test_what_looks_like_a_secret_is_refused_before_it_could_be_logged(tmp_path, key):
    with pytest.raises(ProblemError) as stop:
        ran(tmp_path, "local", GatewayModel(Spy(), "m"), "r1", {key: "s3cret"})
    assert stop.value.problem.details["field"] == f"binding.{key}"
    assert b"s3cret" not in (tmp_path / "runs.db").read_bytes()
    with pytest.raises(ModelCallFailed, match="secret"):
        forwarded({key: "s3cret"}, frozenset())


@pytest.mark.parametrize("key", ["keyword", "gateway.tenant_id", "monkey", "tokenizer", "case"])
def test_a_name_is_judged_by_its_words(key):
    assert not looks_secret(key)


@given(st.dictionaries(st.text(max_size=12) | st.sampled_from(["gateway.tenant_id", "gateway.cache"]), st.text(max_size=8), max_size=4))
def test_whatever_passes_is_declared_and_unchanged(binding):
    declared = frozenset({"tenant_id", "cache"})
    if refusal(binding, declared) is not None:
        with pytest.raises(ModelCallFailed) as refused:
            forwarded(binding, declared)
        assert refused.value.key in binding
        return
    sent = forwarded(binding, declared)
    assert sent == {k.removeprefix("gateway."): v for k, v in binding.items() if k.startswith("gateway.")}
    assert sent.keys() <= declared


class Sync:
    def chat(self, messages, *, model, params): ...


class Demanding:
    async def chat(self, messages, *, model, params, region): ...


class Poor:
    async def chat(self, messages): ...


@pytest.mark.parametrize(("given_object", "word"), [(object(), "no chat"), (Sync(), "not async"), (Demanding(), "region"), (Poor(), "model, params")])
def test_R84_what_cannot_be_called_is_refused_when_it_is_put_together(given_object, word):
    with pytest.raises(ProblemError, match=word):
        GatewayModel(given_object, "m")


class Odd:
    async def chat(self, messages, *, model, params):
        return "a text"


def test_a_gateway_that_returns_no_reply_is_a_failed_call(tmp_path):
    result = ran(tmp_path, "local", GatewayModel(Odd(), "m"), "r1")
    assert (result.reason, result.error["code"]) == ("model_call_failed", "invalid_response")


def test_S2_49_another_namespace_on_resume_is_drift(tmp_path):
    with FakeOpenAI([counting()]) as server:
        model = f"openai:m@{server.url}"
        ran(tmp_path, "a", model, "r1", {"gateway.cache_namespace": "one"})
        with pytest.raises(ProblemError) as stop:
            asyncio.run(resumed(tmp_path, "a", model, request("r1", {"gateway.cache_namespace": "two"})))
    assert stop.value.problem.kind in ("parameter_drift", "conflict")
    assert "gateway.cache_namespace" in str(stop.value.problem.details["fields"])
    assert len(server.seen) == 1


class Toolless:
    async def chat(self, messages, *, model, params):
        return Reply(DONE)


def test_a_gateway_without_tools_is_refused_a_native_run(tmp_path):
    result = ran(tmp_path, "local", GatewayModel(Toolless(), "m"), "r1", agent=Agent("a", protocol="native-tools/1"))
    assert (result.error["code"], result.error["sent"], result.counters.iterations) == ("capability_unavailable", False, 0)
