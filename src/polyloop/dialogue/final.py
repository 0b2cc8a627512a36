"""The final answer for a person: composed from what the log proves, in four parts; a model's own words stand under it. Pure.

Conclusion, what was done, where it stands, next step: always these, in this order, in the language asked for. What a model
says can change none of them; where it claims more, the parts above say otherwise, and say that they hold.
Seed: S1.5, S1.6, S1.22, S1.36-S1.38, S1.89-S1.97.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, cast

from ..contract.problem import is_object
from ..kernel.objects import Json, RunResult
from ..words.catalog import Lang
from ..words.final import FINAL
from .deeds import GOOD, Deed, Facts
from .prose import line, quoted

#: Statuses by what they mean for the whole.
DOUBT: Final = frozenset({"unknown", "unreadable", "unsettled"})
OPEN: Final = frozenset({"waiting", "running", "awaiting"})
GOES_ON: Final = frozenset({"waiting", "running"})
BAD: Final = frozenset({"failed", "retryable", "not_started", "expired"})
#: Claims that are told.
CLAIMS_MAX: Final = 50
#: Ends that are nobody's wish.
BROKEN: Final = frozenset({"stalled", "model_call_failed", "environment_fault", "internal_error"})
#: Statuses told under "what was done"; all others stand under "where it stands".
SCOPE: Final = GOOD | {"partial_success"}


def conclusion(deeds: tuple[Deed, ...], result: RunResult) -> str:
    """One word for the whole; the worst that holds. doubt > open > part, failed, cancelled > reported > again > done, read."""
    have = {d.status for d in deeds}
    good = bool(have & (GOOD | {"partial_success"}))
    if have & DOUBT or result.reason in ("unresolved_action", "store_failed") or not result.persisted:
        return "doubt"
    if have & OPEN or not result.ended:
        return "open"
    if result.reason in ("cancelled", "abandoned"):
        return "part" if good else "cancelled"
    if have & BAD or "partial_success" in have or "cancelled" in have or result.reason != "completed":
        return "part" if good else "cancelled" if have == {"cancelled"} and result.reason == "completed" else "failed"
    if "unchanged" in have and have <= {"unchanged", "again"}:
        return "unchanged"
    if have:
        return next((word for status, word in (("reported", "reported"), ("again", "again")) if status in have), "done")
    return "read" if _answers(result.result) else "empty"


def _answers(said: Json) -> bool:
    """Whether a result says anything."""
    return bool(prose(said).strip()) or (bool(cast("dict[str, object]", said).get("result")) if is_object(said) else said is not None and said != "")


def steps(facts: Facts, result: RunResult, *, asks: bool, heard: bool = False) -> list[str]:
    """What the person may do next, first things first. As `final`."""
    have, waits = {d.status for d in facts.deeds}, result.waiting.kind if result.waiting and not heard else ""
    unread = bool(facts.unread) and not have & (GOOD | OPEN)
    answer = waits == "answer" or (waits == "run" and asks)
    stopped = result.reason in ("cancelled", "abandoned")
    table = (
        ("settle", "unsettled" in have),
        ("doubt", bool(have & (DOUBT - {"unsettled"})) or waits == "settle" or result.reason in ("unresolved_action", "store_failed")),
        ("approval", waits == "approval" or "awaiting" in have),
        ("answer", answer),
        ("open", bool(have & GOES_ON) or (waits == "run" and not answer)),
        ("goes_on", bool(have & GOES_ON) and stopped),
        ("resume", heard or result.state == "interrupted" or (waits == "task" and not have & (GOES_ON | DOUBT))),
        ("part", "partial_success" in have),
        ("failed", unread or bool(have & BAD) or result.reason in BROKEN),
        ("budget", result.reason == "budget_exhausted"),
        ("cancelled", "cancelled" in have or (stopped and not have & (GOES_ON | DOUBT))),
        ("look", "reported" in have),
        ("assumed", bool(facts.assumed)),
    )
    return [step for step, holds in table if holds] or ["none" if conclusion(facts.deeds, result) != "empty" else "empty"]


def final(facts: Facts, result: RunResult, lang: Lang, *, asks: bool = False, heard: bool = False) -> str:
    """The answer as Markdown, ending with a line feed. `asks` = a run below waits for the person's answer; `heard` = what is waited for was

    answered, and nobody has gone on with the run since.
    """
    have = {d.status for d in facts.deeds}
    scope = _lines([d for d in facts.deeds if d.status in SCOPE], lang)
    if facts.reads:
        scope.append(_say("scope.read", lang, count=facts.reads))
    told = [f"wait.{'answer' if asks else result.waiting.kind}"] if result.waiting else [f"run.{result.reason or result.state}"]
    if heard:
        told = ["state.heard"]
    elif told == ["wait.task"] and not have & (GOES_ON | DOUBT):
        told = ["state.over"]
    state = [_say(code, lang) for code in told if code in FINAL]
    state += _lines([d for d in facts.deeds if d.status not in SCOPE] + list(facts.unread), lang)
    nothing = [] if have & SCOPE else [_say("scope." + ("begun" if have & GOES_ON else "unclear" if have & DOUBT else "none"), lang)]
    blocks = [
        ["# " + _say(f"end.{conclusion(facts.deeds, result)}", lang)],
        ["## " + _say("part.scope", lang)],
        ["- " + one for one in nothing + scope],
        ["## " + _say("part.state", lang)],
        ["- " + one for one in state or [_say("state.none", lang)]],
        ["## " + _say("part.next", lang)],
        [f"{n}. " + _say(f"next.{step}", lang) for n, step in enumerate(steps(facts, result, asks=asks, heard=heard), 1)],
    ]
    if facts.assumed:
        rows = [_say("assumed.line", lang, title=line(title, facts.names), answer=line(answer, facts.names)) for title, answer in facts.assumed]
        blocks += [["## " + _say("part.assumed", lang)], [_say("assumed.note", lang)], ["- " + row for row in rows]]
    words, claimed = quoted(prose(result.result), facts.names), _claims(result.result, facts, lang)
    if words or claimed:
        blocks += [["## " + _say("part.prose", lang)], [_say("prose.note", lang)], *filter(None, [words, claimed])]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def prose(result: Json) -> str:
    """What the model itself says of its work."""
    said: object = cast("dict[str, object]", result).get("summary") if is_object(result) else result
    return said if isinstance(said, str) else ""


def _claims(result: Json, facts: Facts, lang: Lang) -> list[str]:
    """What the model claims, each with whether anything of this log stands behind it."""
    said: object = cast("dict[str, object]", result).get("claims") if is_object(result) else None
    rows: list[str] = []
    for one in filter(is_object, cast("list[object]", said)[:CLAIMS_MAX] if isinstance(said, list) else ()):
        cited: object = one.get("evidence")
        refs = cast("list[object]", cited) if isinstance(cited, list) else []
        known = bool(refs) and all(ref in facts.names for ref in refs)
        code = "claim.cited" if known and one.get("unverified") is not True else "claim.unverified"
        rows.append("- " + _say(code, lang, text=line(str(one.get("text", "")), facts.names)))
    return rows


def _lines(deeds: list[Deed], lang: Lang) -> list[str]:
    """One line for all deeds that are the same."""
    return [
        _say(
            "line.why" if deed.why else "line", lang, count=count, what=_say(f"do.{deed.what}", lang), state=_say(f"is.{deed.status}", lang),
            **({"why": _say(f"why.{deed.why}", lang)} if deed.why else {}),
        )
        for deed, count in Counter(deeds).items()
    ]  # fmt: skip


def _say(code: str, lang: Lang, **values: object) -> str:
    zh, en = FINAL[code]
    return (zh if lang == "zh" else en).format(**values)
