"""What a log proves of work that was none: refused before it began, tried without effect, or found as it was to be."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from msgspec.structs import replace

from polyloop.dialogue.deeds import facts
from polyloop.kernel import records as r
from polyloop.kernel.objects import Counters, ToolSnapshot
from polyloop.words.catalog import Lang
from polyloop.words.final import FINAL
from tests.dialogue.test_final import LANGS, NO_TEXTS, START, answer, call, receipt

TOOLS = (
    ToolSnapshot("submit", "", "", "write", "rerun", "async", completes=True), ToolSnapshot("doc_update", "", "", "write", "probe", "async"),
    ToolSnapshot("doc_list", "", "", "read", "rerun", "async"), ToolSnapshot("keep", "", "", "write", "ask", "async", completes=True),
)  # fmt: skip


def refused(tool: str, code: str, **args: Any) -> list[r.Record]:
    """A reply whose call was refused before it was one."""
    step = r.Step(0, 1, "C", valid=False, iteration=1, outcome="", counters=Counters(), timings=r.Timings(), tool=tool)
    said = json.dumps({"action": {"tool": tool, "args": args}})
    return [r.ModelResult(said), replace(step, rejection=r.Rejection(code, "", ""))]


def moved(warned: str) -> list[r.Record]:
    return call("canvas_arrange_nodes", "k", "ok", {"warnings": [warned]}, receipt("o", "success"))


DENIED = call("doc_update", "k", "not_executed", "", code="denied")
WROTE = call("doc_update", "l", "ok", "", receipt("o", "success"), args={"docId": "d-1"})
LOGS: list[tuple[str, list[list[r.Record]], list[tuple[str, str, str]]]] = [
    ("a task that is stopped", [call("doc_task_cancel", "k", "ok", "", receipt("o", "success"))], [("stop", "success", "")]),
    ("a trial", [call("canvas_arrange_nodes", "k", "ok", {"executed": False, "plan": {}})], []),
    ("what calls itself a trial", [call("mine:write", "k", "ok", {"executed": False})], [("other", "reported", "")]),
    ("nothing to arrange", [moved("nothing_to_arrange")], [("arrange", "unchanged", "")]),
    ("no change", [moved("no_change")], [("arrange", "unchanged", "")]),
    ("another warning", [moved("lossy")], [("arrange", "success", "")]),
    ("refused for its arguments", [refused("doc_update", "args_invalid")], [("update", "not_started", "validation")]),
    ("a tool there is not", [refused("doc_burn", "unknown_tool")], [("other", "not_started", "other")]),
    ("a reading refused, a submission, and a reply that is none", [refused(t, "args_invalid") for t in ("doc_list", "submit", "")], []),
    (
        "refused, and made up for",
        [refused("doc_update", "args_missing", docId="d-1"), WROTE],
        [("update", "again", "validation"), ("update", "success", "")],
    ),
    (
        "refused, and something else done",
        [refused("doc_update", "args_missing", docId="d-2"), WROTE],
        [("update", "not_started", "validation"), ("update", "success", "")],
    ),
    ("refused twice", [refused("doc_update", "args_missing"), refused("doc_update", "args_missing")], [("update", "not_started", "validation")] * 2),
    ("in its result and in its step", [DENIED, refused("doc_update", "denied")[1:]], [("update", "not_started", "permission_denied")]),
    ("an own tool that also ends the run", [call("keep", "k", "ok")], [("other", "reported", "")]),
]


@pytest.mark.parametrize(("records", "told"), [c[1:] for c in LOGS], ids=[c[0] for c in LOGS])
def test_S1_5_S1_36_no_work_is_told_for_none_and_none_is_kept_quiet(records: list[list[r.Record]], told: list[tuple[str, str, str]]) -> None:
    known = facts([replace(START, tools=TOOLS), *itertools.chain(*records)], NO_TEXTS)
    assert [(d.what, d.status, d.why) for d in known.deeds] == told


def test_S1_22_two_questions_of_one_title_are_two_assumptions() -> None:
    said = [call("ask_user", "k", "ok", {"assumptions": [{"id": "choice", "title": "选一个", "answer": a}]}, effect="read") for a in ("甲", "丙")]
    assert facts([START, *itertools.chain(*said, *said)], NO_TEXTS).assumed == (("选一个", "甲"), ("选一个", "丙"))


@pytest.mark.parametrize("lang", LANGS)
def test_what_was_as_it_was_to_be_is_no_work_done(lang: Lang) -> None:
    at = LANGS.index(lang)
    assert answer("unchanged", lang=lang).startswith("# " + FINAL["end.unchanged"][at])
    assert FINAL["scope.none"][at] in answer("unchanged", lang=lang)
    assert answer("unchanged", "success", lang=lang).startswith("# " + FINAL["end.done"][at])
