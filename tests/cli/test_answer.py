"""`polyloop answer` from outside: a run asks in one process, is answered in another, and goes on in a third."""

from __future__ import annotations

import concurrent.futures
import json
import os
import pty
from pathlib import Path
from typing import Any

import pytest

from polyloop.cli.arguments import MOST
from tests import outside

from .conftest import Desk, act

FIELDS: list[dict[str, Any]] = [
    {"id": "type", "title": "项目类型", "type": "segmented", "defaultValue": "短片", "options": [{"label": "短片"}, {"label": "海报"}]},
    {"id": "ratio", "title": "画幅", "type": "text", "defaultValue": "16:9"},
    {"id": "style", "title": "风格", "type": "text", "defaultValue": "自动"},
]
ASK = act("ask_user", question="请确认", fields=FIELDS)
SECOND = act(
    "ask_user", question="再确认", fields=[FIELDS[1], *({"id": i, "title": i, "type": "text", "defaultValue": "自动"} for i in ("length", "voice"))]
)
THIRD = act("ask_user", question="最后", options=[{"label": "甲"}, {"label": "乙"}])
DONE = act("submit", summary="好")


def say(where: Path, value: Any) -> str:
    path = where / "form.json"
    path.write_text(json.dumps(value), "utf-8")
    return str(path)


def asking(desk: Desk, *replies: dict[str, str], tools: str = "") -> str:
    """A request for run r1 with this script; it ends with `submit`."""
    (desk.folder / "replies.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (*replies, DONE)), "utf-8")
    (desk.folder / "r1.toml").write_text(
        f'run_id = "r1"\nmodel = "script:replies.jsonl"\ntools = ["ask_user", "submit"{tools}]\nworkspace = "ws"\n[agent]\nid = "a"\n'
        '[budget]\nmax_valid_steps = 20\nmax_iterations = 40\n[[segments]]\nname = "task"\ntext = "do it"\n'
    )
    return "r1.toml"


def observed(desk: Desk, call: int) -> dict[str, Any]:
    results = [r for r in desk.records("r1") if r["kind"] == "action_result"]
    return json.loads(results[call]["observation"][0]["text"])


def test_S1_9_S1_10_S1_19_three_processes_two_rounds_and_no_third(desk: Desk, tmp_path: Path) -> None:
    request = asking(desk, ASK, SECOND, THIRD)
    code, result = desk.json("run", request)
    assert (code, result["state"], result["waiting"]["kind"]) == (5, "waiting", "answer")
    _, shown = desk.json("answer", "r1")
    assert (shown["round"], shown["maxRounds"], [f["id"] for f in shown["asked"]["fields"]]) == (1, 2, ["type", "ratio", "style"])
    code, first = desk.json("answer", "r1", "--form", say(tmp_path, {"answers": {"type": "海报", "ratio": "1:1"}}))
    assert (code, first["answers"]) == (0, {"type": "海报", "ratio": "1:1", "style": "自动"})
    code, again = desk.json("answer", "r1", "--form", say(tmp_path, {"answers": {"type": "短片"}}))
    assert (code, again) == (0, first)

    code, result = desk.json("run", request)
    assert (code, result["waiting"]["kind"]) == (5, "answer")
    _, shown = desk.json("answer", "r1")
    assert [f["id"] for f in shown["asked"]["fields"]] == ["length", "voice"]
    assert [(k["id"], k["answer"]) for k in shown["known"]] == [("ratio", "1:1")]
    desk.json("answer", "r1", "--form", say(tmp_path, {"start": True}))

    code, result = desk.json("run", request)
    assert (code, result["reason"]) == (0, "completed")
    assert observed(desk, 0) == first
    assert observed(desk, 1)["answers"] == {"ratio": "1:1", "length": "自动", "voice": "自动"}
    assert (observed(desk, 2)["phase"], observed(desk, 2)["reason"]) == ("defaulted", "confirmation_round_limit")
    assert [r["kind"] for r in desk.records("r1")].count("action_resolved") == 2
    code, last = desk.json("answer", "r1", "--form", say(tmp_path, {"answers": {}}))
    assert (code, last) == (0, observed(desk, 1))


def test_an_answer_that_does_not_fit_changes_nothing(desk: Desk, tmp_path: Path) -> None:
    desk.json("run", asking(desk, ASK))
    code, told = desk.json("answer", "r1", "--form", say(tmp_path, {"answers": {"type": "音频", "more": 1}}))
    assert (code, told["error"]["kind"]) == (2, "validation")
    assert [(p["field"], p["issue"]) for p in told["error"]["details"]["problems"]] == [
        ("answers.more", "unknown_field"),
        ("answers.type", "invalid_value"),
    ]
    code, shown = desk.json("answer", "r1")
    assert (code, shown["phase"]) == (0, "question")
    assert desk.json("answer", "nobody")[0] == 2


def test_of_eight_answers_at_once_one_counts(desk: Desk, tmp_path: Path) -> None:
    request = asking(desk, ASK)
    desk.json("run", request)
    forms: list[str] = []
    for no in range(8):
        (tmp_path / str(no)).mkdir()
        forms.append(say(tmp_path / str(no), {"answers": {"type": "海报", "style": f"第{no}种"}}))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        said = list(pool.map(desk.json, *zip(*(("answer", "r1", "--form", form) for form in forms), strict=True)))
    assert {code for code, _ in said} == {0}
    assert len({json.dumps(one, sort_keys=True) for _, one in said}) == 1
    desk.json("run", request)
    assert observed(desk, 0) == said[0][1]


def test_S1_11_a_question_after_wrong_arguments_of_another_tool_is_refused(desk: Desk) -> None:
    code, result = desk.json("run", asking(desk, act("workspace_read_lines", path=3), ASK, tools=', "workspace_*"'))
    assert (code, result["reason"]) == (0, "completed")
    told = observed(desk, 0)["error"]
    assert (told["kind"], told["details"]["issue"], told["details"]["after"]) == ("conflict", "not_a_question", "validation")


def test_a_question_may_be_asked_again_when_its_own_arguments_were_wrong(desk: Desk) -> None:
    code, result = desk.json("run", asking(desk, act("ask_user", question="?", round=1), ASK))
    assert (code, result["waiting"]["kind"]) == (5, "answer")
    steps = [r for r in desk.records("r1") if r["kind"] == "step"]
    assert steps[0]["rejection"]["code"] == "args_invalid"


def typed(desk: Desk, *lines: str, lang: str = "en") -> Any:
    """`polyloop answer r1` at a terminal at which these lines are typed; "\\x04" ends the input."""
    ours, theirs = pty.openpty()
    os.write(ours, "".join(lines).encode())
    done = outside.run(*outside.POLYLOOP, "answer", "r1", "--lang", lang, cwd=desk.folder, stdin=theirs, capture_output=True, text=True, check=False)
    os.close(theirs)
    os.close(ours)
    return done


def test_a_terminal_gets_a_form(desk: Desk) -> None:
    request = asking(desk, ASK)
    desk.json("run", request)
    done = typed(desk, "2\n", "\n", "水墨\n")
    assert done.returncode == 0
    assert "  2. 海报\n" in done.stdout
    assert "画幅 [16:9]: " in done.stdout
    assert "项目类型: 海报\n" in done.stdout, "a person reads titles, not ids"
    assert "Taken by default: 画幅" in done.stdout
    desk.json("run", request)
    assert observed(desk, 0)["answers"] == {"type": "海报", "ratio": "16:9", "style": "水墨"}


NUMBERS = act("ask_user", question="几秒？", options=[{"label": "3", "detail": "快"}, {"label": "1"}, {"label": "7"}], defaultValue="7")


def test_S1_17_a_line_that_does_not_fit_is_asked_for_again_and_enter_is_no_choice(desk: Desk) -> None:
    """The label of an option goes before the number of one: 3 is the first, not the third."""
    request = asking(desk, NUMBERS)
    desk.json("run", request)
    done = typed(desk, "\n", "9\n", "3\n", lang="zh")
    assert done.returncode == 0
    assert "  1. 3  快\n" in done.stdout
    assert "选择：需要回答\n" in done.stdout
    assert "选择：请从给出的选项中选择\n" in done.stdout
    desk.json("run", request)
    assert observed(desk, 0)["answers"] == {"choice": "3"}


@pytest.mark.parametrize("word", ["直接开始", "START", " ｓｔａｒｔ", "直接开始！"])
def test_S1_17_who_types_that_they_want_no_more_questions_gets_the_defaults(desk: Desk, word: str) -> None:
    desk.json("run", asking(desk, act("ask_user", question="？", options=[{"label": "甲"}, {"label": "乙"}], allowFreeform=True)))
    assert typed(desk, word + "\n").returncode == 0
    assert desk.json("answer", "r1")[1]["answer"] == {"answers": {"choice": "甲"}, "defaulted": ["choice"]}


def test_S1_17_an_option_of_that_name_is_an_option(desk: Desk) -> None:
    desk.json("run", asking(desk, act("ask_user", question="？", options=[{"label": "先改"}, {"label": "start"}], allowFreeform=True)))
    assert typed(desk, "start\n").returncode == 0
    assert desk.json("answer", "r1")[1]["answer"] == {"answers": {"choice": "start"}}


def test_a_form_without_end_is_refused(desk: Desk, tmp_path: Path) -> None:
    desk.json("run", asking(desk, ASK))
    with (tmp_path / "endless").open("wb") as file:
        file.truncate(MOST + 1)
    for name, issue in (("/dev/zero", "not_readable"), (str(tmp_path / "endless"), "too_large")):
        code, told = desk.json("answer", "r1", "--form", name)
        assert (code, told["error"]["details"]["issue"]) == (2, issue)
    code, told = desk.json("answer", "r1", "--form", say(tmp_path, {"answers": {f"k{n}": 1 for n in range(5000)}}))
    assert (code, told["error"]["details"]["field"]) == (2, "answers.k0")
    assert len(json.dumps(told)) < 20_000


def test_an_input_that_ends_sends_nothing(desk: Desk) -> None:
    desk.json("run", asking(desk, ASK))
    done = typed(desk, "2\n", "\x04", lang="zh")
    assert done.returncode == 5
    assert "没有发送任何回答" in done.stdout
    assert desk.json("answer", "r1")[1]["phase"] == "question"


def test_a_form_tells_what_is_known_and_what_is_required(desk: Desk, tmp_path: Path) -> None:
    needed = {"id": "voice", "title": "配音", "type": "text", "defaultValue": "自动", "required": True}
    second = act("ask_user", question="再确认", fields=[FIELDS[1], needed, {"id": "x", "title": "长度", "type": "text", "defaultValue": "自动"}])
    request = asking(desk, ASK, second)
    desk.json("run", request)
    desk.json("answer", "r1", "--form", say(tmp_path, {"answers": {"ratio": "1:1"}}))
    desk.json("run", request)
    done = typed(desk, "\n", "女声\n", "\n", lang="zh")
    assert done.returncode == 0
    assert "已经知道 画幅：1:1\n" in done.stdout
    assert "配音 (必填) [自动]: " in done.stdout
    assert "需要回答" in done.stdout
    assert "配音: 女声\n" in done.stdout


def test_S1_93_a_person_is_refused_in_their_language_and_by_titles(desk: Desk, tmp_path: Path) -> None:
    desk.json("run", asking(desk, ASK))
    place = ("answer", "r1", "--form", say(tmp_path, {"answers": {"type": "音频"}}))
    done = outside.command(desk.folder, *place)
    assert (done.code, done.err) == (2, "项目类型：请从给出的选项中选择\n")
    assert "choose one of the options" in outside.command(desk.folder, *place, "--lang", "en").err


def test_an_answer_to_nobody_makes_no_store(tmp_path: Path) -> None:
    done = outside.command(tmp_path, "answer", "nobody", "--form", say(tmp_path, {"start": True}), "--store", "new.db")
    assert (done.code, done.err) == (2, "找不到这次运行或这个问题。\n")
    assert not (tmp_path / "new.db").exists()
