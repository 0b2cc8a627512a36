"""Records as people and programs see them: fields as kernel.md names them, derived ones filled in, nothing changed (R39, R40; S2.21)."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyloop.kernel import records as r
from polyloop.kernel.history import carried_text
from polyloop.kernel.objects import Agent, Budget, Request, Segment
from polyloop.kernel.records import BlobRef, bytes_text, canonical, decode, plain, text_bytes
from polyloop.kernel.seams import Deferred, Reply
from polyloop.kernel.view import Materialiser, materialise
from polyloop.testing import said
from tests.kernel.desk import TOOLS, Desk, Spelled, act, spell, tool

LONG = "é" * 3000
FLAT = tool("flat", schema={"type": "object", "properties": {"path": {}}, "additionalProperties": False})

#: kind -> the fields kernel.md names under "Records"; more may be there.
NAMED = {
    "run_started": "definition interpreter? budget tools binding params assembly segments root parent origin result_schema",
    "model_intent": "purpose digest",
    "model_result": "text reasoning tool_calls items finish_reason usage served_by cached attempts ms error",
    "action_intent": "call tool args effect replay key",
    "action_result": "call status observation completion ms evidence",
    "action_deferred": "call token awaited until dispatched",
    "action_resolved": "of token decision by evidence",
    "step": "call valid tier raw_output repairs reflection plan action outcome rejection timings counters",
    "resume_started": "",
    "resume_refused": "fields",
    "replay": "of policy decision",
    "drift_accepted": "fields",
    "tail_repaired": "",
    "cancel_requested": "by reason",
    "run_ended": "reason counters",
}
HEADER = {"seq", "kind", "at", "fence", "prev", "hash"}


def test_every_kind_has_its_named_fields_also_where_they_are_at_their_defaults() -> None:
    assert NAMED.keys() == r.KINDS.keys()
    desk = Desk([act("look"), act("write"), act("submit")], {"write": lambda a: said("x") if a.approved else Deferred("t", "approval")})
    desk.start()
    desk.log.leave("resolve", "t", "approved", at=desk.clock.now_ms())
    desk.resume()
    seen = {}
    for x in desk.shown():
        seen[x["kind"]] = x
        assert {f for f in NAMED[x["kind"]].split() if not f.endswith("?")} | HEADER <= x.keys(), x["kind"]
    assert seen["run_started"]["definition"] == {"id": "a", "version": "1", "interpreter": "json-text/1"}
    assert seen["step"]["timings"].keys() == {"assemble", "model", "interpret", "action", "store", "total"}
    assert seen["model_result"]["error"] is None
    assert {"type", "text", "blob", "mime"} <= seen["action_result"]["observation"][0].keys()
    assert json.loads(json.dumps(desk.shown())) == desk.shown()


#: reply -> raw_output, repairs, reflection, plan, action, all as the step shows them
INNER = '{"reflection":"because","plan":["a","b"],"action":{"tool":"flat","args":{"path":"p"}}}'
FLATTENED = '{"reflection":"because","plan":["a","b"],"action":{"tool":"flat","path":"p"}}'
REPLIES = [
    ("as it is", INNER, INNER, []),
    ("with blanks of its own", INNER.replace(":", " : "), INNER.replace(":", " : "), []),
    ("a span", f"```json\n{INNER}\n```", INNER, ["fence"]),
    ("a span behind a thought", f"<think>{{no}}</think>{INNER}", INNER, ["think"]),
    ("repaired", FLATTENED, INNER, ["flattened"]),
    ("a long span", f"```\n{INNER.replace('because', LONG)}\n```", INNER.replace("because", LONG), ["fence"]),
    ("long and repaired", FLATTENED.replace("because", LONG), INNER.replace("because", LONG), ["flattened"]),
]


@pytest.mark.parametrize(("reply", "raw", "repairs"), [x[1:] for x in REPLIES], ids=[x[0] for x in REPLIES])
def test_S2_14_S2_21_original_and_repaired_stand_apart(reply: str, raw: str, repairs: list[str]) -> None:
    """The reply as it came in the model's result; the text that was judged as `raw_output`; every repair by its name."""
    desk = Desk([reply, act("submit")], tools=(*TOOLS, FLAT))
    desk.start()
    (result, _) = [x for x in desk.shown() if x["kind"] == "model_result"]
    step = desk.steps()[0]
    assert (result["text"], step["raw_output"], step["repairs"]) == (reply, raw, repairs)
    assert step["reflection"] == json.loads(raw)["reflection"]
    assert (step["plan"], step["action"]) == (["a", "b"], {"tool": "flat", "args": {"path": "p"}})
    (intent, _) = [x for x in desk.shown() if x["kind"] == "action_intent"]
    assert intent["args"] == {"path": "p"}
    assert desk.actions.done[0].args == {"path": "p"}
    desk.check()


@pytest.mark.parametrize("reply", ["prose", "[1]", '{"a": 1}', "", "\ud800", "{" * 50])
def test_a_reply_that_could_not_be_read_is_shown_as_it_came(reply: str) -> None:
    desk = Desk([reply])
    desk.start()
    (step,) = desk.steps()
    assert (step["raw_output"], step["reflection"], step["plan"], step["action"]) == (reply, None, None, None)
    desk.check()


def test_text_is_stored_once() -> None:
    """An unrepaired reply: its text in the result alone; the step and the intent point at it."""
    long = "only once " * 300
    desk = Desk([act("look", text=long), act("submit")])
    desk.start()
    assert sum(long.encode() in body for body in desk.log.texts.values()) == 1
    assert not any(b"only once" in (s.body or b"") for s in desk.log.records)
    (intent, _) = [b for b in desk.log.bodies() if isinstance(b, r.ActionIntent)]
    assert (intent.args, intent.args_text) == (None, "")
    assert next(x["args"] for x in desk.shown() if x["kind"] == "action_intent") == {"text": long}


@pytest.mark.parametrize("size", [r.INLINE_BYTES - 1, r.INLINE_BYTES])
def test_texts_of_a_kilobyte_are_kept_apart(size: int) -> None:
    desk = Desk([act("look"), act("submit")], {"look": said("x" * size)})
    desk.start()
    assert len(desk.log.texts) == (size >= r.INLINE_BYTES)
    assert desk.told().endswith("x" * size)


LOOKALIKES = [{"blob": "ab" * 32, "size": 3}, {"blob": ["a"], "size": {}}, {"blob": None, "size": None}]


@pytest.mark.parametrize("data", LOOKALIKES, ids=range(3))
def test_data_that_looks_like_a_blob_is_data(data: Any) -> None:
    """From a model, a tool and a person: it is shown as it is and opens nothing."""
    ask = Deferred("t", "answer", prompt=data)
    desk = Desk([act("look", odd=data), act("write"), act("submit", odd=data)], {"look": said("x", completion="NOT_DONE"), "write": ask})
    desk.start()
    desk.log.leave("resolve", "t", "answered", data, at=desk.clock.now_ms())
    ended = desk.resume()
    assert ended.result == {"odd": data}
    shown = desk.shown()
    assert next(x["args"] for x in shown if x["kind"] == "action_intent") == {"odd": data}
    assert [x["prompt"] for x in shown if x["kind"] == "action_deferred"] == [data]
    assert [x["evidence"] for x in shown if x["kind"] == "action_resolved"] == [data]
    desk.check()


def test_unknown_fields_of_a_later_version_are_kept() -> None:
    desk = Desk([act("submit")])
    desk.start()
    first = desk.log.records[0]
    body = canonical({**plain(first.body), "mood": {"a": [1]}})
    (shown,) = materialise([r.Sealed(0, first.kind, 1, 1, "", body, "", "", "")], str)
    assert shown["mood"] == {"a": [1]}
    assert shown["protocol"] == 1


def test_an_erased_record_and_an_erased_text_are_shown_as_such() -> None:
    desk = Desk([act("look", text=LONG), "```\n" + act("write", text=LONG) + "\n```", act("submit", text=LONG)], {"look": said(LONG)})
    desk.start()
    desk.log.texts.clear()
    marker = "[erased]"
    shown = list(materialise(desk.log.records, lambda t: marker if isinstance(t, BlobRef) else t))
    assert next(x["text"] for x in shown if x["kind"] == "model_result") == marker
    assert [x["args"] for x in shown if x["kind"] == "action_intent"] == [None, None, None]
    assert next((x["raw_output"], x["action"]) for x in shown if x["kind"] == "step") == (marker, None)
    assert [x["outcome"] for x in shown if x["kind"] == "step"] == ["ok"] * 3
    gone = [s if s.seq != 2 else r.Sealed(2, s.kind, s.at, s.fence, "", None, s.body_digest, s.prev, s.hash) for s in desk.log.records]
    shown = list(materialise(gone, lambda t: marker if isinstance(t, BlobRef) else t))
    assert (shown[2]["erased"], shown[2]["kind"], shown[2]["hash"]) == (True, "model_result", desk.log.records[2].hash)
    assert len(shown) == len(gone)


def test_records_can_be_fed_one_by_one() -> None:
    desk = Desk(["```\n" + act("look", n=1) + "\n```", act("submit")])
    desk.start()
    feed = Materialiser(lambda t: bytes_text(desk.log.texts[t.blob]) if isinstance(t, BlobRef) else t)
    assert [feed.feed(s) for s in desk.log.records] == desk.shown()


def test_several_calls_show_their_own_arguments() -> None:
    desk = Desk([spell(["act", "look", {"n": 1}], ["reject", "not_json", ""], ["act", "look", {"n": 2, "t": LONG}])], interpreter=Spelled())
    desk.start()
    assert [x["args"] for x in desk.shown() if x["kind"] == "action_intent"] == [{"n": 1}, {"n": 2, "t": LONG}]


# --- odd characters ----------------------------------------------------------------------------------------------


def test_lone_surrogates_survive() -> None:
    """In replies, arguments, observations, answers: the same string comes back, and the model is shown it again."""
    odd = "a\ud800b\udfff" + "c" * 2000
    desk = Desk([act("look", text=odd), "prose \udead", act("submit", text="\udc80")], {"look": said(odd, evidence=(r.Evidence("e\ud800", "t"),))})
    ended = desk.start()
    assert ended.result == {"text": "\udc80"}
    assert desk.actions.done[0].args == {"text": odd}
    shown = desk.shown()
    assert next(x["observation"][0]["text"] for x in shown if x["kind"] == "action_result") == odd
    assert [x["text"] for x in shown if x["kind"] == "model_result"][1] == "prose \udead"
    assert odd in desk.told(1)
    assert next(x["evidence"] for x in shown if x["kind"] == "action_result")[0]["ref"] == "e\ud800"
    assert desk.resume() == ended
    desk.check()


def test_two_halves_of_a_character_side_by_side_are_one_everywhere() -> None:
    """JSON cannot say otherwise; what is live and what is read back must agree, or the run could not be resumed."""
    halves = "\ud83d" + "\ude00"
    lines = [act("look"), act("look", n=2), act("submit")]
    whole = Desk(lines, {"look": said(halves)})
    whole.start()
    assert "\U0001f600" in whole.told()
    whole.check()
    for count in range(1, len(whole.log.records)):
        assert Desk(lines, {"look": said(halves)}, shelf=whole.log.upto(count)).resume().state == "ended"


texts = st.text(st.characters(exclude_categories=()), max_size=20).map(
    lambda t: t.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts),
    lambda x: st.one_of(st.lists(x, max_size=3), st.dictionaries(texts, x, max_size=3)),
    max_leaves=8,
)


@given(values)
@settings(max_examples=300)
def test_canonical_bytes_read_back_and_are_one_per_value(value: Any) -> None:
    body = canonical(value)
    assert plain(body) == value
    assert canonical(plain(body)) == body
    assert body.decode("utf-8")
    assert b"\n" not in body


@given(values, texts)
@settings(max_examples=200)
def test_records_read_back_as_they_were(value: Any, text: str) -> None:
    for record in (
        r.ActionIntent(0, text, "read", "rerun", "k", value),
        r.ActionDeferred(0, text, "answer", prompt=value),
        r.ActionResult(0, "ok", (r.Part(text=text),), evidence=(r.Evidence(text, "t", complete=True),)),
        r.Step(0, 1, "A", False, 1, "x", r.Counters(), r.Timings(), raw_output=(1, 2), rejection=r.Rejection("a", text, "")),
        r.RunEnded("completed", r.Counters(), result=value),
        r.ModelResult(text=text, items=(value,), error=r.CallError(text)),
    ):
        assert decode(r.KIND_OF[type(record)], canonical(record)) == record
    assert bytes_text(text_bytes(text)) == text


def test_the_hashes_are_those_of_the_documented_format() -> None:
    """interface.md, export: anybody can recompute them from the parts."""
    desk = Desk([act("submit", text="ü\ud800")])
    desk.start()
    prev = "0" * 64
    for s in desk.log.records:
        assert s.body_digest == hashlib.sha256(s.salt.encode() + s.body).hexdigest()
        parts = "\n".join([prev, str(s.seq), s.kind, str(s.at), str(s.fence), s.body_digest])
        assert s.hash == hashlib.sha256(parts.encode()).hexdigest()
        assert s.prev == prev
        assert (
            json.dumps(json.loads(s.body), sort_keys=True, separators=(",", ":"), ensure_ascii=False) == s.body.decode()
            or "\\ud800" in s.body.decode()
        )
        prev = s.hash
    assert [s.seq for s in desk.log.records] == list(range(len(desk.log.records)))
    assert len({s.salt for s in desk.log.records}) == len(desk.log.records)


# --- what the model sees -------------------------------------------------------------------------------------------


def test_S2_34_S2_50_segments_in_order_and_slots_in_their_places() -> None:
    """R21, R66, R67: the kernel decides order and slots only; json-text/1 sends no tools but as text in their slot."""
    segments = (
        Segment("rules", "system", "Be brief."),
        Segment("tools", "system", slot="tools"),
        Segment("task", "user", "Do it."),
        Segment("history", slot="history"),
        Segment("notice", "user", slot="notice"),
        Segment("last", "user", "Go."),
    )
    desk = Desk([act("look"), act("submit")], request=Request("r1", Agent("a"), Budget(5, 9), segments))
    desk.start()
    (first, second) = (list(q.messages) for q in desk.model.seen)
    assert [m.role for m in first] == ["system", "system", "user", "user", "user"]
    assert [m.text for m in first if "Steps" not in m.text and "Tools" not in m.text] == ["Be brief.", "Do it.", "Go."]
    assert all(t.name in first[1].text for t in TOOLS)
    assert first[3].text == "Steps used: 0 of 5. Replies used: 1 of 9."
    assert [m.role for m in second[3:5]] == ["assistant", "user"]
    assert second[3].text == act("look")
    assert second[5].text.startswith("Steps used: 1 of 5.")
    assert second[6].text == "Go."
    assert all(q.tools is None for q in desk.model.seen)
    assert (second[-1], second[-7], second[2:4], len(second)) == (second[6], second[0], [second[2], second[3]], 7)


def test_a_window_shows_the_last_replies_with_their_answers() -> None:
    """The overflow policy acts on the view alone: the log keeps everything, and a resume shows the same."""
    first = Desk([act("look", n=n) for n in range(2)] + [act("submit")])
    first.start()
    text = carried_text("", first.driver.state.history, first.driver.look)
    request = Request("r1", Agent("a"), Budget(9, 9), (Segment("task", text="Do it."),), overflow="window(2)", history=text)
    desk = Desk([act("write", n=n) for n in range(3)] + [act("submit")], request=request)
    desk.start()
    shown = [[m.text for m in q.messages][1:] for q in desk.model.seen]
    replies = [act("look", n=1), act("submit"), *(act("write", n=n) for n in range(3))]
    assert [x[::2] for x in shown] == [replies[n : n + 2] for n in range(4)]
    assert {len(x) for x in shown} == {4}
    again = Desk(desk.model.lines, request=request, shelf=desk.log.upto(12))
    again.resume()
    assert [m.text for m in again.model.seen[-1].messages] == [m.text for m in desk.model.seen[-1].messages]


def test_the_view_is_a_sequence_and_never_a_copy() -> None:
    desk = Desk([act("look"), act("look", n=2), act("submit")])
    desk.start()
    early, _, late = (q.messages for q in desk.model.seen)
    assert (len(early), len(late)) == (1, 5)
    assert early[0] == late[0]
    assert late[-5] == late[0]
    assert late[1:3] == [late[1], late[2]]
    for index in (5, -6):
        with pytest.raises(IndexError):
            late[index]
    assert not hasattr(late, "append")


def test_S2_40_binding_and_parameters_reach_the_model_unchanged() -> None:
    """R72: the same map, odd keys and values included; the kernel reads none of it."""
    binding = {"case": "7", "gateway.cache_namespace": "ac\u0301me \U0001f600 \udc80", "session_id": "old", "": ""}
    desk = Desk([Reply(act("submit"))], request=Request("r1", Agent("a"), Budget(1, 1), binding=binding, params={"temperature": 0.5}))
    desk.start()
    assert (dict(desk.model.seen[0].binding), dict(desk.model.seen[0].params)) == (binding, {"temperature": 0.5})
