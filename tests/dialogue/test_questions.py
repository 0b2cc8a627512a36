"""ask_user's rules as tables: what may be asked, what is asked at all, and what an answer means."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import convert

from polyloop.contract.problem import FieldProblem, is_object
from polyloop.dialogue.questions import Answer, Asked, Question, Show, Told, answered, asked, defaults, heard, plain, plan, prompt, read, told
from polyloop.words.catalog import SENTENCES


def field(name: str, title: str = "", default: str = "自动", **more: Any) -> dict[str, Any]:
    return {"id": name, "title": title or f"标题 {name}", "type": "text", "defaultValue": default, **more}


def form(*names: str) -> dict[str, Any]:
    return {"question": "请确认", "fields": [field(n) for n in names]}


CHOICE = {"question": "做成哪一种？", "options": [{"label": "图片"}, {"label": "视频", "detail": "十秒以内"}]}
FORM = form("type", "ratio", "style")


def question(args: dict[str, Any]) -> Question:
    got = read(args)
    assert isinstance(got, Question), got
    return got


def once(args: dict[str, Any], answer: dict[str, Any] | None) -> Asked:
    q = question(args)
    got = None if answer is None else answered(q, answer)
    assert got is None or isinstance(got, Answer), got
    return Asked(question=q, answer=got)


def replaced(args: dict[str, Any], at: int, **more: Any) -> dict[str, Any]:
    return {**args, "fields": [{**f, **more} if i == at else f for i, f in enumerate(args["fields"])]}


CELLS: list[tuple[str, dict[str, Any], str, str]] = [
    ("null question", {**CHOICE, "question": None}, "question", "null"),
    ("empty question", {**CHOICE, "question": ""}, "question", "empty"),
    ("no question", {"options": CHOICE["options"]}, "question", "required"),
    ("neither", {"question": "?"}, "options|fields", "exactly_one"),
    ("both", {**FORM, "options": CHOICE["options"]}, "options|fields", "exactly_one"),
    ("one option", {"question": "?", "options": [{"label": "a"}]}, "options", "item_count"),
    ("five options", {"question": "?", "options": [{"label": x} for x in "abcde"]}, "options", "item_count"),
    ("two fields", form("a", "b"), "fields", "item_count"),
    ("seven fields", form(*"abcdefg"), "fields", "item_count"),
    ("round", {**CHOICE, "round": 1}, "round", "unknown_field"),
    ("maxRounds", {**CHOICE, "maxRounds": 9}, "maxRounds", "unknown_field"),
    ("questionId", {**CHOICE, "questionId": "q"}, "questionId", "unknown_field"),
    ("type", replaced(FORM, 0, type="checkbox"), "fields[0].type", "invalid_value"),
    (
        "no default",
        {**FORM, "fields": [{k: v for k, v in f.items() if k != "defaultValue"} for f in FORM["fields"]]},
        "fields[0].defaultValue",
        "required",
    ),
    ("empty default", replaced(FORM, 0, defaultValue=""), "fields[0].defaultValue", "empty"),
    ("default of null", replaced(FORM, 0, defaultValue=None), "fields[0].defaultValue", "null"),
    ("select without options", replaced(FORM, 1, type="single_select"), "fields[1].options", "required"),
    ("text with options", replaced(FORM, 1, options=[{"label": "a"}, {"label": "b"}]), "fields[1].options", "exclusive"),
    (
        "default is no option",
        replaced(FORM, 2, type="segmented", options=[{"label": "a"}, {"label": "b"}]),
        "fields[2].defaultValue",
        "invalid_value",
    ),
    ("same id", replaced(FORM, 2, id="TYPE"), "fields[2].id", "duplicate"),
    ("same title", replaced(FORM, 2, title="标题，Ｔype！"), "fields[2].title", "duplicate"),
    ("same label", {"question": "?", "options": [{"label": "A"}, {"label": "ａ。"}]}, "options[1].label", "duplicate"),
    ("default of a choice", {**CHOICE, "defaultValue": "音频"}, "defaultValue", "invalid_value"),
    ("freeform of a form", {**FORM, "allowFreeform": True}, "options", "required"),
]


@pytest.mark.parametrize(("args", "at", "issue"), [c[1:] for c in CELLS], ids=[c[0] for c in CELLS])
def test_S1_8_S1_9_S1_16_S1_18_a_question_that_may_not_be_asked_names_field_and_issue(args: dict[str, Any], at: str, issue: str) -> None:
    found = read(args)
    assert isinstance(found, list)
    assert (at, issue) in [(p.field, p.issue) for p in found]


def test_S1_10_fields_already_answered_are_taken_out_and_given_back() -> None:
    chain = [once(FORM, {"answers": {"type": "短片", "ratio": "16:9", "style": "水墨"}})]
    got = plan(question(form("ratio", "length", "voice")), chain)
    assert isinstance(got, Show)
    assert [f.id for f in got.question.fields] == ["length", "voice"]
    assert [(k.id, k.answer, k.assumed) for k in got.known] == [("ratio", "16:9", False)]
    assert got.round == 2


def test_S1_10_a_field_is_known_by_its_title_under_another_id() -> None:
    chain = [once(FORM, {"answers": {"ratio": "9:16"}})]
    second = form("aspect", "length", "voice")
    second["fields"][0]["title"] = "标题：ＲＡＴＩＯ？"
    got = plan(question(second), chain)
    assert isinstance(got, Show)
    assert [(k.id, k.answer) for k in got.known] == [("aspect", "9:16")]


REWORDED = [
    {"question": "换一种说法：要哪一种成品呢", "options": CHOICE["options"]},
    {"question": "?", "options": [{"label": "视频。"}, {"label": " 图片 "}]},
    {"question": "?", "options": [{"label": "图 片！", "detail": "别的说明"}, {"label": "（视频）"}]},
]


@pytest.mark.parametrize("again", REWORDED)
def test_S1_13_S1_14_a_choice_in_other_words_gets_the_earlier_answer(again: dict[str, Any]) -> None:
    got = plan(question(again), [once(CHOICE, {"choice": "视频"})])
    assert isinstance(got, Told)
    assert (got.phase, got.reason, [k.answer for k in got.known]) == ("reused", "repeated_confirmation_point", ["视频"])


def test_S1_14_what_nobody_answered_is_not_asked_again_but_assumed() -> None:
    got = plan(question(CHOICE), [once(CHOICE, None)])
    assert isinstance(got, Told)
    assert (got.phase, [(k.answer, k.assumed) for k in got.known]) == ("defaulted", [("图片", True)])


def test_a_bare_yes_answers_its_own_question_only() -> None:
    bare = {"options": [{"label": "是"}, {"label": "否"}]}
    first = once({"question": "要配音吗？", **bare}, {"choice": "是"})
    assert isinstance(plan(question({"question": "删掉原来的草稿吗？", **bare}), [first]), Show)
    assert isinstance(plan(question({"question": "要配音吗", **bare}), [first]), Told)


@pytest.mark.parametrize(
    "labels", [("需要", "不需要"), ("要", "不要"), ("有", "没有"), ("是的", "不是"), ("高", "中", "低"), ("1", "2", "3"), ("Yes", "No")]
)
def test_labels_that_fit_many_questions_answer_their_own_only(labels: tuple[str, ...]) -> None:
    options = {"options": [{"label": label} for label in labels]}
    first = once({"question": "旁白呢？", **options}, {"choice": labels[0]})
    assert isinstance(plan(question({"question": "字幕呢？", **options}), [first]), Show)
    assert isinstance(plan(question({"question": "旁白呢", **options}), [first]), Told)


@pytest.mark.parametrize(
    ("one", "other"),
    [("1.5 秒", "15 秒"), ("< 10 秒", "> 10 秒"), ("C", "C++"), ("C", "C#"), ("16:9", "169"), ("3-5", "35"), ("-1", "1"), ("10%", "10"),
     ("1/2", "12"), ("≤10", "≥10")],
)  # fmt: skip
def test_S1_14_signs_that_make_a_number_or_a_name_are_no_punctuation(one: str, other: str) -> None:
    question({"question": "?", "options": [{"label": one}, {"label": other}]})
    assert plain(one) != plain(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("画幅：", "画幅"), ("3–5 秒。", "3~5秒"), ("wide-screen", "Widescreen"), ("（Ａ）", "a."), ("图片+视频", "图片 视频"), ("> 画幅", "画幅")],
)
def test_S1_14_punctuation_is_not_told_apart(one: str, other: str) -> None:
    assert plain(one) == plain(other)


def test_S1_10_a_field_that_was_answered_is_not_asked_again_as_a_choice_nor_the_other_way_round() -> None:
    ratio = replaced(FORM, 1, title="画幅")
    choice = {"question": "画幅？", "options": [{"label": "16:9"}, {"label": "9:16"}]}
    got = plan(question(choice), [once(ratio, {"answers": {"ratio": "９：16"}})])
    assert isinstance(got, Told)
    assert [(k.id, k.answer) for k in got.known] == [("choice", "９：16")]
    got = plan(question(ratio), [once(choice, {"choice": "9:16"})])
    assert isinstance(got, Show)
    assert [(k.id, k.answer) for k in got.known] == [("ratio", "9:16")]


def test_two_choices_under_one_title_are_two_points() -> None:
    first = once({"question": "请选择", "options": [{"label": "写实"}, {"label": "卡通"}]}, None)
    assert isinstance(plan(question({"question": "请选择", "options": [{"label": "横版"}, {"label": "竖版"}]}), [first]), Show)


def test_S1_10_an_answer_that_may_not_be_given_here_settles_nothing_here() -> None:
    options = [{"label": "16:9"}, {"label": "9:16"}]
    select = replaced(FORM, 1, type="single_select", options=options, defaultValue="9:16")
    got = plan(question(select), [once(FORM, {"answers": {"ratio": "4:3", "type": "短片", "style": "水墨"}})])
    assert isinstance(got, Show)
    assert [f.id for f in got.question.fields] == ["ratio"]
    custom = replaced(select, 1, allowCustom=True)
    assert isinstance(plan(question(custom), [once(FORM, {"answers": {"ratio": "4:3", "type": "短片", "style": "水墨"}})]), Told)
    unheard = plan(question(select), [once(FORM, None)])
    assert isinstance(unheard, Told)
    assert [(k.id, k.answer, k.assumed) for k in unheard.known][1] == ("ratio", "9:16", True), "a default of before that is none here"


def select(name: str, title: str, *labels: str) -> dict[str, Any]:
    return field(name, title, labels[0], type="single_select", options=[{"label": one} for one in labels])


SELECTS = (("16:9", "9:16", "1:1"), ("写实", "动画", "水墨"), ("男声", "女声", "无声"))


def test_S1_13_S1_14_a_select_under_another_name_is_the_same_by_its_options() -> None:
    first = {"question": "a", "fields": [select(i, i, *labels) for i, labels in zip("abc", SELECTS, strict=True)]}
    again = {"question": "b", "fields": [select(i, f"又 {i}", *labels) for i, labels in zip("xyz", SELECTS, strict=True)]}
    got = plan(question(again), [once(first, {"answers": {"a": "1:1"}})])
    assert isinstance(got, Told)
    assert [(k.id, k.answer, k.assumed) for k in got.known] == [("x", "1:1", False), ("y", "写实", True), ("z", "男声", True)]
    choice = {"question": "画幅？", "options": [{"label": one} for one in SELECTS[0]]}
    shown = plan(question(again), [once(choice, {"choice": "9:16"})])
    assert isinstance(shown, Show)
    assert ([f.id for f in shown.question.fields], [k.answer for k in shown.known]) == (["y", "z"], ["9:16"])


def test_two_selects_of_one_form_with_the_same_options_are_two_points() -> None:
    both = {"question": "a", "fields": [select("front", "前景", "红", "蓝"), select("back", "背景", "红", "蓝"), field("c")]}
    got = plan(
        question({**both, "fields": [select("rim", "描边", "红", "蓝"), *form("d", "e")["fields"]]}), [once(both, {"answers": {"front": "蓝"}})]
    )
    assert isinstance(got, Show)
    assert len(got.question.fields) == 3
    bare = {"question": "a", "fields": [select("x", "要字幕吗", "要", "不要"), field("c"), field("d")]}
    got = plan(question({**bare, "fields": [select("y", "要配乐吗", "要", "不要"), *form("e", "f")["fields"]]}), [once(bare, {"start": True})])
    assert isinstance(got, Show)
    assert len(got.question.fields) == 3


HIDDEN = ["\u200b", "\u2060", "\u00ad", "\u202e", "\u3164", "\u115f", "\uffa0", "\ufe0f", "\u034f", "\U000e0041"]


@pytest.mark.parametrize("hidden", HIDDEN)
def test_S1_14_what_nobody_sees_makes_no_other_point(hidden: str) -> None:
    assert plain(f"画{hidden}幅{hidden}") == "画幅"


@pytest.mark.parametrize("blank", [*HIDDEN, "\u2800", "\0", " ", "\u200b \u2800"])
def test_something_must_be_seen_of_a_question_and_of_an_answer(blank: str) -> None:
    for args, at in (
        ({**CHOICE, "question": blank}, "question"),
        ({**CHOICE, "options": [{"label": "a"}, {"label": blank}]}, "options[1].label"),
        (replaced(FORM, 1, title=blank), "fields[1].title"),
        (replaced(FORM, 1, defaultValue=blank), "fields[1].defaultValue"),
        ({**FORM, "fields": [select("s", "s", "a", blank), *FORM["fields"][1:]]}, "fields[0].options[1].label"),
    ):
        got = read(args)
        assert isinstance(got, list)
        assert (at, "length") in {(p.field, p.issue) for p in got}
    for args, said, at in (({**CHOICE, "allowFreeform": True}, {"choice": blank}, "choice"), (FORM, {"answers": {"type": blank}}, "answers.type")):
        got = answered(question(args), said)
        assert isinstance(got, list)
        assert [(p.field, p.issue) for p in got] == [(at, "length")]
    assert isinstance(answered(question({**CHOICE, "allowFreeform": True}), {"choice": "👨\u200d👩"}), Answer)


@pytest.mark.parametrize("word", ["直接开始", "Start", "ＳＴＡＲＴ", " 直接开始。"])
def test_S1_17_a_free_choice_that_says_start_is_one(word: str) -> None:
    free = question({**CHOICE, "allowFreeform": True})
    assert answered(free, {"choice": word}) == defaults(free)
    offered = question({"question": "？", "options": [{"label": "先改"}, {"label": "直接开始"}], "allowFreeform": True})
    assert answered(offered, {"choice": "直接开始"}) == Answer(answers={"choice": "直接开始"})


def test_S1_19_S1_21_the_third_question_reaches_nobody() -> None:
    chain = [once(FORM, {"answers": {"type": "短片"}}), once(CHOICE, {"choice": "视频"})]
    got = plan(question(form("mood", "type", "voice")), chain)
    assert isinstance(got, Told)
    assert (got.phase, got.reason) == ("defaulted", "confirmation_round_limit")
    assert [(k.id, k.answer, k.assumed) for k in got.known] == [("mood", "自动", True), ("type", "短片", False), ("voice", "自动", True)]
    assert [a["id"] for a in told(got, 2)["assumptions"]] == ["mood", "voice"]


def test_S1_17_start_takes_every_default_and_nothing_else() -> None:
    q = question(FORM)
    assert (
        answered(q, {"start": True})
        == defaults(q)
        == Answer(answers=dict.fromkeys(("type", "ratio", "style"), "自动"), defaulted=("type", "ratio", "style"))
    )
    wrong: list[dict[str, Any]] = [{"start": True, "more": 1}, {"start": False}, {"start": "true"}, {"start": 1}, {"start": 1, "answers": {}}]
    for form_answer in wrong:
        assert isinstance(answered(q, form_answer), list)


def test_S1_22_defaults_are_told_as_assumptions() -> None:
    shown = plan(question(FORM), [])
    assert isinstance(shown, Show)
    asked_now = prompt(shown, "q1")
    answer = answered(shown.question, {"answers": {"style": "水墨"}})
    assert isinstance(answer, Answer)
    said = heard(asked_now, answer)
    assert said["answers"] == {"type": "自动", "ratio": "自动", "style": "水墨"}
    assert [(a["id"], a["title"]) for a in said["assumptions"]] == [("type", "标题 type"), ("ratio", "标题 ratio")]


SELECT = replaced(FORM, 0, type="single_select", defaultValue="a", options=[{"label": "a"}, {"label": "b"}], required=True)


def test_S1_17_start_beside_answers_takes_the_defaults_of_the_rest() -> None:
    got = answered(question(replaced(SELECT, 1, required=True)), {"answers": {"style": "水墨"}, "start": True})
    assert got == Answer(answers={"type": "a", "ratio": "自动", "style": "水墨"}, defaulted=("type", "ratio"))


WRONG: list[tuple[dict[str, Any], object, list[FieldProblem]]] = [
    (SELECT, [], [FieldProblem("", "wrong_type")]),
    (SELECT, {}, [FieldProblem("", "exactly_one")]),
    (SELECT, {"choice": "a"}, [FieldProblem("", "exactly_one")]),
    (SELECT, {"answers": "a"}, [FieldProblem("answers", "wrong_type")]),
    (SELECT, {"answers": {}}, [FieldProblem("answers.type", "required")]),
    (SELECT, {"answers": {"type": "c"}}, [FieldProblem("answers.type", "invalid_value")]),
    (SELECT, {"answers": {"type": 3, "ratio": " "}}, [FieldProblem("answers.type", "wrong_type"), FieldProblem("answers.ratio", "length")]),
    (SELECT, {"answers": {"type": "a", "more": "x"}}, [FieldProblem("answers.more", "unknown_field")]),
    (SELECT, {"answers": {"type": "a", "style": "x" * 2001}}, [FieldProblem("answers.style", "length")]),
    (CHOICE, {"choice": "音频"}, [FieldProblem("choice", "invalid_value")]),
    (CHOICE, {"choice": None}, [FieldProblem("choice", "wrong_type")]),
]


@pytest.mark.parametrize(("args", "said", "problems"), WRONG)
def test_an_answer_that_does_not_fit_names_every_field(args: dict[str, Any], said: object, problems: list[FieldProblem]) -> None:
    found = answered(question(args), said)
    assert isinstance(found, list)
    assert [(p.field, p.issue) for p in found] == [(p.field, p.issue) for p in problems]


def test_S1_93_whatever_is_wrong_with_an_answer_has_its_sentence() -> None:
    issues = {p.issue for _, _, problems in WRONG for p in problems}
    assert {f"answer.issue.{issue}" for issue in issues} == {code for code in SENTENCES if code.startswith("answer.issue.")}


def test_free_text_is_taken_where_it_was_offered() -> None:
    assert answered(question({**CHOICE, "allowFreeform": True}), {"choice": "漫画"}) == Answer(answers={"choice": "漫画"})
    custom = replaced(SELECT, 0, allowCustom=True)
    assert answered(question(custom), {"answers": {"type": "z", "ratio": "1:1", "style": "s"}}) == Answer(
        answers={"type": "z", "ratio": "1:1", "style": "s"}
    )


NAMES = st.lists(st.sampled_from([f"f{i}" for i in range(9)]), min_size=3, max_size=6, unique=True)
SAYS: st.SearchStrategy[dict[str, str] | bool | None] = (
    st.none() | st.just(True) | st.dictionaries(st.sampled_from([f"f{i}" for i in range(9)]), st.sampled_from(["甲", "乙", "丙"]))
)


@given(st.lists(st.tuples(NAMES, SAYS), min_size=1, max_size=6))
def test_S1_19_no_chain_asks_more_than_twice_or_any_point_twice(rounds: list[tuple[list[str], dict[str, str] | bool | None]]) -> None:
    chain: list[Asked] = []
    seen: dict[str, str | None] = {}
    for names, said in rounds:
        got = plan(question(form(*names)), chain)
        if isinstance(got, Told):
            for k in got.known:
                assert k.assumed == (seen.get(k.id) is None)
                assert k.answer == (seen.get(k.id) or "自动")
            continue
        ids = [f.id for f in got.question.fields]
        assert not set(ids) & set(seen)
        assert sorted(ids + [k.id for k in got.known]) == sorted(names)
        answer = None
        if said is not None:
            answer = answered(got.question, {"answers": {i: v for i, v in said.items() if i in ids}} if isinstance(said, dict) else {"start": True})
            assert isinstance(answer, Answer)
        stored = prompt(got, "q")
        chain.append(asked(stored, None if answer is None else heard(stored, answer)))
        assert chain[-1] == Asked(question=got.question, answer=answer)
        seen |= dict.fromkeys(ids)
        if isinstance(said, dict):
            seen |= {i: v for i, v in said.items() if i in ids}
    assert len(chain) <= 2


@given(st.text(max_size=30))
@example("A:-0")
def test_plain_is_steady(text: str) -> None:
    assert plain(plain(text)) == plain(text) or not plain(text)
    assert plain(f" {text}！？") == plain(text) or not plain(text).isalnum()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=8), x, max_size=3),
    )
)
def test_any_json_is_refused_or_understood(value: Any) -> None:
    for q in (convert({"question": "?", **{k: v for k, v in CHOICE.items() if k != "question"}}, Question), question(FORM)):
        assert isinstance(answered(q, value), Answer | list)
    assert isinstance(read(value if is_object(value) else {"question": value}), Question | list)
