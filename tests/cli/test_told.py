"""The sentence over an answer: nothing that is not done is called done, in any language."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from polyloop.cli.told import headline
from polyloop.contract.task import Phase, ticket
from polyloop.words.catalog import Lang

LANGS = get_args(Lang)
DONE = {"zh": "已完成", "en": "done"}
NOT = {"zh": ("没有", "不能"), "en": ("not ", "nothing ")}


def called_done(text: str, lang: Lang) -> bool:
    return DONE[lang] in text and not any(word in text for word in NOT[lang])


@pytest.mark.parametrize("lang", LANGS)
def test_S1_36_S1_37_S1_47_a_task_is_called_done_in_one_state_only(lang: Lang) -> None:
    said = set[str]()
    for state in (*get_args(Phase), "queued", "INIT", "SUCCESS", "a state of another version"):
        base: dict[str, Any] = {"taskId": "t", "state": state, "complete": False}
        for answer in (base, base | {"error": {"kind": "task_failed", "message": "x", "details": {}}}, {"operation": "o", "data": base}):
            text = headline(lang, "op", answer)
            if "data" not in answer or state in ("queued", "INIT", "running", "unknown"):
                assert not called_done(text, lang), text
            said.add(text)
    done: dict[str, Any] = {"taskId": "t", "state": "succeeded", "complete": True}
    assert called_done(headline(lang, "op", done), lang)
    lost = headline(lang, "op", done | {"writeback": {"outcome": "not_applied"}})
    assert "task_recover" in lost
    assert len(said) > 6, "each state has its own words"


@pytest.mark.parametrize("lang", LANGS)
def test_a_plan_and_a_refusal_are_not_called_done(lang: Lang) -> None:
    assert not called_done(headline(lang, "op", {"operation": "o", "executed": False, "plan": {}}), lang)
    for status in ("partial_success", "unknown", "retryable", "failed", None):
        details = {"status": status} if status else {}
        assert not called_done(headline(lang, "op", {"error": {"kind": "x", "operation": "o", "details": details}}), lang), status


def test_the_words_are_those_of_the_contract() -> None:
    assert ticket("t", "k", "queued").phase == "waiting"
    assert "等待处理" in headline("zh", "op", {"taskId": "t", "state": "queued", "complete": False})
    assert "正在处理" in headline("zh", "op", {"taskId": "t", "state": "running", "complete": False})
