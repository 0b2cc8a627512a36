"""The final answer: every status in both languages, told in four parts; a model's words change none of them."""

from __future__ import annotations

import itertools
import json
from string import Formatter
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from polyloop.contract.problem import KINDS
from polyloop.contract.receipt import Status
from polyloop.contract.task import PHASES, Phase
from polyloop.dialogue.deeds import DOINGS, Deed, Facts, facts
from polyloop.dialogue.final import BAD, DOUBT, OPEN, SCOPE, conclusion, final
from polyloop.kernel import records as r
from polyloop.kernel.context import look_up
from polyloop.kernel.objects import Budget, Counters, DefinitionSnapshot, RunResult, ToolSnapshot, Waiting
from polyloop.words.catalog import Lang
from polyloop.words.final import FINAL
from tests.dialogue.plain_words import breaches, headings

LANGS: tuple[Lang, ...] = get_args(Lang)
STATUSES = sorted(SCOPE | OPEN | BAD | DOUBT | {"cancelled", "again", "unchanged"})
NAMES = ("canvas_apply_ops", "submit", "script:replies.jsonl", "qwen-image-2")
ENDS = ["completed", *(code.removeprefix("run.") for code in FINAL if code.startswith("run.") and code != "run.interrupted")]
RUNS = [
    *(RunResult("r", "local", "ended", Counters(), reason=reason) for reason in ENDS),
    *(RunResult("r", "local", "waiting", Counters(), waiting=Waiting(kind, "t")) for kind in get_args(r.Awaited)),
    RunResult("r", "local", "interrupted", Counters()),
]  # fmt: skip
DONE = RUNS[0]
SAID = RunResult("r", "local", "ended", Counters(), "completed", result={"summary": "一只狐狸。"})


def answer(*statuses: str, run: RunResult = DONE, lang: Lang = "zh", said: Any = None) -> str:
    deeds = tuple(Deed("canvas", s, "" if s in SCOPE - {"partial_success"} else "task_failed") for s in statuses)
    return final(Facts(deeds, names=NAMES), RunResult("r", "local", run.state, Counters(), run.reason, result=said, waiting=run.waiting), lang)


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("status", STATUSES)
def test_S1_92_S1_95_S1_96_every_status_in_every_language_has_four_parts_in_order(status: str, lang: Lang) -> None:
    for run, why in (*((run, "task_failed") for run in RUNS), *((DONE, why) for why in ("", *KINDS))):
        text = final(Facts((Deed("media", status, why), Deed("other", "success")), 2, (("画幅", "16:9"),), NAMES), run, lang)
        assert breaches(text, NAMES) == []
        assert [level for level, _ in headings(text)] == [1, 2, 2, 2, 2]
        assert [title for _, title in headings(text)[1:4]] == [FINAL[f"part.{p}"][LANGS.index(lang)] for p in ("scope", "state", "next")]
        assert FINAL[f"is.{status}"][LANGS.index(lang)] in text


@pytest.mark.parametrize("lang", LANGS)
def test_every_doing_every_reason_and_every_end_has_its_words(lang: Lang) -> None:
    whats, whys = {"other", "look", *(what for _, what in DOINGS)}, {*KINDS, "timeout", "expired", "other"}
    assert {f"do.{w}" for w in whats} == {c for c in FINAL if c.startswith("do.")}
    assert {f"why.{w}" for w in whys} == {c for c in FINAL if c.startswith("why.")}
    assert {f"is.{s}" for s in STATUSES} == {c for c in FINAL if c.startswith("is.")}
    assert {f"wait.{w}" for w in get_args(r.Awaited)} == {c for c in FINAL if c.startswith("wait.")}
    assert set(get_args(Status)) | set(get_args(Phase)) <= set(STATUSES)
    for code, texts in FINAL.items():
        assert len({tuple(sorted(n for _, n, _, _ in Formatter().parse(text) if n)) for text in texts}) == 1, code
        assert breaches(texts[LANGS.index(lang)].replace("{", "").replace("}", "")) == []


def test_S1_37_S1_89_queued_and_running_have_their_words_and_are_not_done() -> None:
    assert "等待处理" in answer(PHASES["queued"])
    assert "正在处理" in answer(PHASES["running"])
    assert "等待处理" in answer(PHASES["INIT"])
    for status in ("waiting", "running"):
        assert answer(status, "success").startswith("# 还没有完成\n")
    for status in sorted(BAD | DOUBT | OPEN | {"cancelled", "partial_success"}):
        for lang in LANGS:
            for others in ((), ("success",), ("reported",)):
                head = answer(status, *others, lang=lang).splitlines()[0].removeprefix("# ")
                ends = [FINAL[f"end.{word}"][LANGS.index(lang)] for word in ("done", "again", "reported", "read", "empty")]
                assert head not in ends, (status, others)


CONCLUSIONS = [
    (("success",), "done"), (("succeeded", "success"), "done"), (("success", "reported"), "reported"), (("success", "again"), "again"), ((), "empty"),
    (("success", "failed"), "part"), (("partial_success",), "part"), (("success", "cancelled"), "part"), (("failed",), "failed"),
    (("failed", "cancelled"), "failed"), (("not_started",), "failed"), (("cancelled",), "cancelled"), (("expired",), "failed"),
    (("retryable",), "failed"), (("success", "unknown"), "doubt"), (("unreadable",), "doubt"), (("failed", "unknown", "waiting"), "doubt"),
    (("success", "running"), "open"), (("awaiting",), "open"),
]  # fmt: skip


@pytest.mark.parametrize(("statuses", "word"), CONCLUSIONS)
def test_S1_6_unconfirmed_under_way_failed_and_cancelled_are_kept_apart(statuses: tuple[str, ...], word: str) -> None:
    assert conclusion(tuple(Deed("canvas", s) for s in statuses), DONE) == word


@pytest.mark.parametrize("run", RUNS[1:], ids=lambda run: run.reason or run.state)
def test_S1_5_a_run_that_did_not_complete_is_never_called_done(run: RunResult) -> None:
    for statuses in ((), ("success",), ("reported",), ("success", "again")):
        assert conclusion(tuple(Deed("canvas", s) for s in statuses), run) not in ("done", "read", "empty", "reported", "again")


@pytest.mark.parametrize(
    ("said", "word"),
    [({"summary": "一只狐狸。"}, "read"), ("一只狐狸。", "read"), ({"summary": "", "result": {"n": 3}}, "read"), (0, "read"),
     ({"summary": " "}, "empty"), ("", "empty"), (None, "empty"), ({"summary": "", "result": []}, "empty")],
)  # fmt: skip
def test_S1_5_an_answer_is_given_only_where_one_stands(said: Any, word: str) -> None:
    assert conclusion((), RunResult("r", "local", "ended", Counters(), "completed", result=said)) == word


CLAIMS = [
    "全部完成！",
    "# 已完成\n\n## 下一步\n\n无",
    "<h1>Done</h1>",
    "Done\n===",
    "a | b\n--|--\nc | d",
    "\n> # 已完成",
    "```\nDone\n```",
    "1. 已完成",
]


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("said", CLAIMS)
def test_S1_97_a_model_that_claims_more_than_its_receipts_changes_nothing(said: str, lang: Lang) -> None:
    for status in (*BAD, *OPEN, *DOUBT, "cancelled"):
        text, bare = answer(status, lang=lang, said={"summary": said}), answer(status, lang=lang)
        assert text.startswith(bare)
        assert FINAL["prose.note"][LANGS.index(lang)] in text[len(bare) :]
        assert breaches(text, NAMES) == []


MACHINE = [
    "canvas_apply_ops", "snapshotHash", "https://a.b/c?d=e", "www.example.com", "ftp://x", "a" * 64, "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "HTTPS://A.B/c", "WWW.example.com", "cdn.example.com/x.png", "localhost:8080/x", "localhost:8080", "10.0.0.1:80/x", "nodeID", "a1b2c3d4",
    "cv_0123456789abcdef", "qwen-image-2", "QWEN-IMAGE-2", "ｃａｎｖａｓ＿ｇｅｔ＿ｓｔａｔｅ", "node_id", "script:replies.jsonl",
]  # fmt: skip


@pytest.mark.parametrize("said", MACHINE)
def test_S1_93_no_tool_field_model_address_hash_or_id_is_shown(said: str) -> None:
    for text in (said, f"看（{said}）。", f"**{said}**", f"[x]({said})"):
        shown = final(Facts((), 0, ((text, text),), NAMES), RunResult("r", "local", "ended", Counters(), "completed", result=text), "zh")
        assert breaches(shown, NAMES) == []


@pytest.mark.parametrize("said", [
    "1990-2000", "010-8888-6666", "13800138000", "Submit", "①½ 完成", "macOS", "20261130235959", "and/or", "第１集", "ﬁn", "16:9",
])  # fmt: skip
def test_S1_22_an_assumption_is_told_as_it_was_given(said: str) -> None:
    assert f"- 标题：{said}\n" in final(Facts((), 0, (("标题", said),), NAMES), DONE, "zh")


def test_S1_22_what_was_cut_is_marked_and_a_file_keeps_its_name() -> None:
    text = final(Facts((), 0, (("文件", "my_video.mp4"), ("长", "长" * 300)), NAMES), replace(DONE, result="字" * 3000), "zh")
    assert "my\\_video.mp4" in text
    assert "长" * 200 + "…\n" in text
    assert text.endswith("字" * 2000 + "…\n")


HOSTILE = st.text(st.one_of(st.sampled_from("#>-+*_`~|<>[]()!\\&=:.;1 \t\n\r\u2028\u202e\u00a0\x0b\x1b$^{}/@"), st.characters()), max_size=80)


@settings(max_examples=100, deadline=None)
@given(said=HOSTILE, title=HOSTILE, status=st.sampled_from(STATUSES), lang=st.sampled_from(LANGS))
def test_S1_95_S1_97_whatever_is_said_the_answer_keeps_its_form(said: str, title: str, status: str, lang: Lang) -> None:
    known = Facts((Deed("canvas", status),), 0, ((title, said),), NAMES)
    text = final(known, RunResult("r", "local", "ended", Counters(), "completed", result=said), lang)
    bare = final(known, DONE, lang)
    assert text.startswith(bare)
    assert breaches(text, NAMES) == []
    assert [h for h in headings(text) if h not in headings(bare)] in ([], [(2, FINAL["part.prose"][LANGS.index(lang)])])


# --- from a log ---------------------------------------------------------------------------------------------------

START = r.RunStarted(
    DefinitionSnapshot("a", "1", "json-text/1"), 1, Budget(9, 9), assembly={"model": "script:x"},
    tools=(ToolSnapshot("submit", "", "", "read", "rerun", "async", completes=True), ToolSnapshot("doc_update", "", "", "write", "probe", "async")),
)  # fmt: skip
NO_TEXTS = look_up({})


def call(
    tool: str, key: str, status: Any, told: Any = "", *proofs: r.Evidence, effect: str = "write", code: str = "", args: Any = None
) -> list[r.Record]:
    part = r.Part(text=told if isinstance(told, str) else json.dumps(told))
    return [r.ActionIntent(0, tool, effect, "probe", key, args or {}), r.ActionResult(0, status, (part,), evidence=proofs, code=code)]


def receipt(ref: str, status: str) -> r.Evidence:
    return r.Evidence(ref, "receipt", status)


def ticket(ref: str, state: str, *, complete: bool = False) -> r.Evidence:
    return r.Evidence(ref, "ticket", state, complete=complete)


def error(kind: str, *causes: str) -> dict[str, Any]:
    return {"error": {"kind": kind, "message": "raw log 0xdead", "details": {"failures": [{"kind": c} for c in causes]}}}


def deeds(*records: list[r.Record]) -> list[tuple[str, str, str]]:
    return [(d.what, d.status, d.why) for d in facts([START, *itertools.chain(*records)], NO_TEXTS).deeds]


LOGS: list[tuple[str, list[list[r.Record]], list[tuple[str, str, str]]]] = [
    ("receipt", [call("doc_update", "k", "ok", "", receipt("op1", "success"))], [("update", "success", "")]),
    ("no receipt", [call("mine:write", "k", "ok", "great success")], [("other", "reported", "")]),
    ("read", [call("doc_list", "k", "ok", "[]", effect="read")], []),
    ("a shipped tool that also ends the run", [call("workspace_write", "k", "ok", "")], [("files", "reported", "")]),
    (
        "a task of another session, looked at",
        [call("task_get", "k", "ok", "", ticket("t", "succeeded", complete=True), effect="read")],
        [],
    ),
    (
        "gone on with",
        [
            call("doc_create", "k", "error", error("partial_success"), receipt("o", "partial_success")),
            call("doc_create", "l", "ok", "", receipt("p", "success"), args={"continues": "o"}),
        ],
        [("create", "success", "")],
    ),
    (
        "not gone on with: that failed too",
        [
            call("doc_create", "k", "error", error("partial_success"), receipt("o", "partial_success")),
            call("doc_create", "l", "error", error("rate_limited"), receipt("p", "failed"), args={"continues": "o"}),
        ],
        [("create", "partial_success", "partial_success"), ("create", "failed", "rate_limited")],
    ),
    (
        "a success elsewhere makes up for nothing",
        [
            call("doc_update", "k", "error", error("revision_conflict"), args={"docId": "doc-1"}),
            call("doc_update", "l", "ok", "", receipt("o", "success"), args={"docId": "doc-2"}),
        ],
        [("update", "failed", "revision_conflict"), ("update", "success", "")],
    ),
    (
        "a success on other nodes makes up for nothing",
        [
            call("canvas_apply_ops", "k", "error", error("revision_conflict"), args={"snapshotHash": "a-1", "ops": [{"id": "node-1"}]}),
            call("canvas_apply_ops", "l", "ok", "", receipt("o", "success"), args={"snapshotHash": "a-2", "ops": [{"id": "node-2"}]}),
        ],
        [("canvas", "failed", "revision_conflict"), ("canvas", "success", "")],
    ),
    (
        "nor on another node whose name is a word",
        [
            call("generate_media", "k", "not_executed", error("validation"), code="args_invalid", args={"nodeId": "fox"}),
            call("generate_media", "l", "ok", "", ticket("t", "succeeded", complete=True), args={"nodeId": "cat"}),
        ],
        [("media", "not_started", "validation"), ("media", "succeeded", "")],
    ),
    (
        "nor to another file",
        [
            call("workspace_write", "k", "error", error("rate_limited"), args={"path": "a.txt"}),
            call("workspace_write", "l", "ok", "", args={"path": "b.txt"}),
        ],
        [("files", "failed", "rate_limited"), ("files", "reported", "")],
    ),
    ("details of any kind", [call("mine:write", "k", "error", {"error": {"details": {"failures": 5}}})], [("other", "failed", "other")]),
    ("assumptions of any kind", [call("sub_run", "k", "ok", {"assumptions": [5, {"title": 1}]}, effect="read")], []),
    ("submit", [call("submit", "k", "ok", effect="write")], []),
    (
        "partial",
        [call("doc_create", "k", "error", error("partial_success", "rate_limited"), receipt("o", "partial_success"), code="partial_success")],
        [("create", "partial_success", "rate_limited")],
    ),
    ("unknown", [call("doc_delete", "k", "unknown", "", receipt("o", "unknown"), code="unknown")], [("remove", "unknown", "other")]),
    ("denied", [call("workspace_exec", "k", "not_executed", "", code="denied")], [("exec", "not_started", "permission_denied")]),
    ("timeout", [call("workspace_exec", "k", "error", "", code="timeout")], [("exec", "failed", "timeout")]),
    ("lie", [call("mine:write", "k", "error", '{"error": {"kind": "all fine"}}')], [("other", "failed", "other")]),
    ("no JSON", [call("mine:write", "k", "error", "[" * 100_000)], [("other", "failed", "other")]),
    (
        "task, then asked",
        [
            call("doc_import", "k", "error", "", ticket("t", "PROCESSING")),
            call("doc_import_get", "l", "ok", "", ticket("t", "SUCCESS", complete=True), effect="read"),
        ],
        [("import", "succeeded", "")],
    ),
    ("task whose result is gone", [call("generate_media", "k", "error", "", ticket("t", "succeeded"))], [("media", "unreadable", "other")]),
    ("task that failed", [call("generate_media", "k", "error", error("task_failed"), ticket("t", "failed"))], [("media", "failed", "task_failed")]),
    ("task cancelled", [call("generate_media", "k", "error", "", ticket("t", "cancelled"))], [("media", "cancelled", "")]),
    (
        "made up for",
        [
            call("doc_update", "k", "error", error("revision_conflict"), args={"docId": "d"}),
            call("doc_update", "l", "ok", "", receipt("o", "success"), args={"docId": "d"}),
        ],
        [("update", "again", "revision_conflict"), ("update", "success", "")],
    ),
    (
        "a failure is not made up for by another success",
        [call("doc_update", "k", "error", error("not_found")), call("doc_update", "l", "ok", "", receipt("o", "success"))],
        [("update", "failed", "not_found"), ("update", "success", "")],
    ),
    ("lost", [[r.ActionIntent(0, "canvas_apply_ops", "write", "probe", "k")]], [("canvas", "unknown", "other")]),
    (
        "waits for a task",
        [[r.ActionIntent(0, "doc_import", "write", "probe", "k"), r.ActionDeferred(0, "t", "task", prompt={"state": "INIT"})]],
        [("import", "waiting", "")],
    ),
    (
        "waits for approval",
        [[r.ActionIntent(0, "doc_purge", "write", "probe", "k"), r.ActionDeferred(0, "t", "approval")]],
        [("remove", "awaiting", "")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("records", "told"), [c[1:] for c in LOGS], ids=[c[0] for c in LOGS])
def test_S1_36_S1_38_S1_90_what_was_done_is_what_its_proofs_say(records: list[list[r.Record]], told: list[tuple[str, str, str]]) -> None:
    assert deeds(*records) == told


def test_S1_22_defaults_taken_are_listed_and_names_are_not() -> None:
    heard = {"answers": {"ratio": "16:9", "style": "水墨"}, "assumptions": [{"id": "ratio", "title": "画幅 [x](http://a)", "answer": "16:9"}]}
    known = facts([START, *call("ask_user", "k", "ok", heard, effect="read")], NO_TEXTS)
    assert known.deeds == ()
    assert known.reads == 0
    text = final(known, DONE, "zh")
    assert "## 采用的假设" in text
    assert "16:9" in text
    assert "水墨" not in text
    assert breaches(text, known.names) == []
    assert {"submit", "doc_update", "script:x"} <= set(known.names)


def test_S1_94_a_reading_that_failed_is_told_with_its_reason_unless_it_worked_after_all() -> None:
    bad = call("model_list", "k", "error", error("capability_unavailable"), effect="read", code="capability_unavailable")
    good = call("model_list", "l", "ok", {"models": []}, effect="read")
    known = facts([START, *bad], NO_TEXTS)
    assert (known.reads, known.unread) == (0, (Deed("look", "failed", "capability_unavailable"),))
    text = final(known, SAID, "zh")
    assert "- 查看资料：1 项，失败（当前没有可用的能力）" in text
    assert "次" not in text
    assert "1. 看过原因后" in text
    assert facts([START, *bad, *good], NO_TEXTS).unread == ()
    assert facts([START, *bad, *good], NO_TEXTS).reads == 1


def test_S1_93_ids_that_were_handed_out_and_models_of_the_catalogue_are_told_to_no_person() -> None:
    models = [{"selection": {"channelId": "studio", "channelModelKey": "studio-image"}}, {"selection": {"logicalModelId": "flux"}}]
    listed = call("model_list", "k", "ok", {"models": models}, effect="read")
    made = call("canvas_apply_ops", "l", "ok", {"data": {"nodeIds": ["fox-7", "note"]}}, receipt("op-9z", "success"), args={"ops": [{"id": "sea-1"}]})
    known = facts([START, *listed, *made], NO_TEXTS)
    said = "用 studio-image 和 Flux 在 STUDIO 画了 fox-7、sea-1，见 op-9z；note 是便条。"
    written = facts([START, *call("workspace_write", "k", "ok", "", args={"path": "out/report.txt"})], NO_TEXTS)
    assert "out/report.txt" in final(written, replace(DONE, result="写在 out/report.txt"), "zh")
    text = final(known, replace(DONE, result=said), "zh")
    assert breaches(text, ["studio-image", "Flux", "STUDIO", "fox-7", "sea-1", "op-9z"]) == []
    assert "note 是便条" in text, "what is a word as well stays one"


@pytest.mark.parametrize("lang", LANGS)
def test_S1_97_claims_are_told_and_those_without_a_record_are_marked(lang: Lang) -> None:
    known = facts([START, *call("doc_update", "k", "ok", "", receipt("op-9z", "success"))], NO_TEXTS)
    claims: list[Any] = [
        {"text": "# 改了标题", "evidence": ["op-9z"]}, {"text": "看过全部", "evidence": ["op-made-up"]}, {"text": "很好看", "evidence": []},
        {"text": "也对", "evidence": ["op-9z"], "unverified": True}, 5, {"text": {"a": "<b>"}, "evidence": 5},
    ]  # fmt: skip
    text = final(known, replace(DONE, result={"summary": "好", "claims": claims}), lang)
    rows = [row for row in text.partition(FINAL["part.prose"][LANGS.index(lang)])[2].splitlines() if row.startswith("- ")]
    marks = [FINAL[code][LANGS.index(lang)].partition("}")[2] for code in ("claim.cited", *["claim.unverified"] * 4)]
    assert [row.endswith(mark) for row, mark in zip(rows, marks, strict=True)] == [True] * 5
    assert breaches(text, known.names) == []


def test_S1_94_a_failure_is_told_as_what_it_means() -> None:
    known = facts([START, *call("generate_media", "k", "error", error("capability_unavailable"))], NO_TEXTS)
    text = final(known, DONE, "zh")
    assert "当前没有可用的能力" in text
    assert "0xdead" not in text
    assert "capability" not in text
