"""Questions to a person: what may be asked, what of it still needs asking, and what an answer means. Pure.

Theory of operation. A chain is what was asked so far in one line of tasks. Every field, and every choice, is a *point*: an id
and the title's own words without width, case and punctuation. A point that was asked before is never asked again: its answer
is given back, or the default that stood in for one. What is left is shown to the person, twice in a chain at most; after that
defaults are taken, and every default taken is told, so that it can be listed as an assumption.

An answer settles points and nothing else: it approves nothing and grants nothing, "start right away" included.
Seed: S1.7-S1.10, S1.13-S1.23.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct, convert
from msgspec.structs import replace

from ..contract.problem import FieldProblem, as_wire, is_object
from ..contract.schema import Shape
from ..words.catalog import BARE_CHOICES, START_WORDS
from .unseen import seen, shows_nothing

ROUNDS_MAX: Final = 2
TEXT_MAX: Final = 2000
SELECTS: Final = frozenset({"single_select", "segmented"})
#: What a person says who wants no more questions (S1.17).
START: Final = "start"
#: Which question an answer is for, as its prompt said it; without it, the last one.
QUESTION_ID: Final = "questionId"

FieldType = Literal["single_select", "segmented", "text", "textarea", "model_picker"]


class Option(Struct, frozen=True, omit_defaults=True):
    label: str
    detail: str = ""


class Field(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One line of a form. A select offers `options`; with `allow_custom` another text is taken too."""

    id: str
    title: str
    type: FieldType
    default_value: str
    options: tuple[Option, ...] = ()
    required: bool = False
    allow_custom: bool = False
    placeholder: str = ""


class Question(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a model asks: a choice (`options`) or a form (`fields`), never both. A choice's default is its first option unless told."""

    question: str
    options: tuple[Option, ...] = ()
    fields: tuple[Field, ...] = ()
    allow_freeform: bool = False
    default_value: str = ""

    @property
    def kind(self) -> str:
        return "form" if self.fields else "choice"


class Known(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A point that needs no asking: its title, its answer, and whether that is only the default."""

    id: str
    title: str
    answer: str
    assumed: bool = False


class Asked(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One round of a chain: the question as the person saw it, and the answer. `answer` None = the person was never heard."""

    question: Question
    answer: Answer | None = None


class Answer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person said: by field id, `choice` for a choice. `defaulted` = the ids for which the default was taken."""

    answers: dict[str, str]
    defaulted: tuple[str, ...] = ()


class Show(Struct, frozen=True):
    """Ask this, as round `round` of the chain; what is `known` goes back with the answer."""

    question: Question
    round: int
    known: tuple[Known, ...] = ()


class Told(Struct, frozen=True):
    """Nothing is asked. `reason`: repeated_confirmation_point, confirmation_round_limit."""

    phase: Literal["reused", "defaulted"]
    reason: str
    known: tuple[Known, ...]


CHOICE: Final = "choice"
_TEXT: Final[dict[str, Any]] = {"type": "string", "minLength": 1, "maxLength": TEXT_MAX}
_SHORT: Final[dict[str, Any]] = {"type": "string", "minLength": 1, "maxLength": 120}
_OPTION: Final[dict[str, Any]] = {
    "type": "object", "additionalProperties": False, "required": ["label"],
    "properties": {"label": _SHORT, "detail": {"type": "string", "minLength": 1, "maxLength": 300}},
}  # fmt: skip
_FIELD: Final[dict[str, Any]] = {
    "type": "object", "additionalProperties": False, "required": ["id", "title", "type", "defaultValue"],
    "properties": {
        "id": {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_.-]{0,79}$"},
        "title": _SHORT,
        "type": {"enum": ["single_select", "segmented", "text", "textarea", "model_picker"]},
        "options": {"type": "array", "minItems": 2, "maxItems": 8, "items": _OPTION},
        "defaultValue": _TEXT,
        "required": {"type": "boolean"},
        "allowCustom": {"type": "boolean"},
        "placeholder": {"type": "string", "minLength": 1, "maxLength": 120},
    },
}  # fmt: skip
#: `round`, `maxRounds`, `questionId` are the server's words: here they are unknown fields (S1.18).
SHAPE: Final = Shape({
    "type": "object", "additionalProperties": False, "required": ["question"],
    "properties": {
        "question": {"type": "string", "minLength": 1, "maxLength": 500},
        "options": {"type": "array", "minItems": 2, "maxItems": 4, "items": _OPTION, "description": "directions that differ in fact; or `fields`"},
        "fields": {"type": "array", "minItems": 3, "maxItems": 6, "items": _FIELD, "description": "one form for parameters that belong together"},
        "allowFreeform": {"type": "boolean", "description": "with options: another text is taken too"},
        "defaultValue": {**_SHORT, "description": "with options: the label taken if nobody answers; else the first"},
    },
    "oneOf": [{"required": ["options"]}, {"required": ["fields"]}],
    "dependentRequired": {"allowFreeform": ["options"], "defaultValue": ["options"]},
})  # fmt: skip


#: Signs that belong to what they stand beside: 1.5 is not 15, 16:9 not 169, < 10 not > 10, C++ not C.
_SIGNED: Final = re.compile(r"(?<=\d)[.:/-](?=\d)|(?<!\w)-(?=\d)|[<>≤≥](?=\d)|(?<=\d)%|(?<=[a-z])#|(?<=[a-z0-9+])\+(?![a-z])")
_DASHES: Final = re.compile(r"(?<=\d)[~–—−〜](?=\d)")


def plain(text: str) -> str:
    """A text without width, case, punctuation, blanks and what nobody sees; itself where nothing else is left. Signs that make a number or

    a name stay. What is plain stays as it is: a sign may belong to nothing any more once what stood before it is gone.
    """
    while (left := _plainer(text)) != text:
        text = left
    return text


def _plainer(text: str) -> str:
    folded = "".join(seen(unicodedata.normalize("NFKC", text)).casefold().split())
    folded = _DASHES.sub("-", folded)
    kept = {found.start() for found in _SIGNED.finditer(folded)}
    return "".join(c for at, c in enumerate(folded) if c.isalnum() or at in kept) or folded


def starts(text: str, options: Iterable[Option] = ()) -> bool:
    """Whether a person says with it that they want no more questions, in whatever language, width and case; not where an option says that."""
    return plain(text) in START_WORDS and not any(plain(o.label) in START_WORDS for o in options)


def read(args: Mapping[str, Any]) -> Question | list[FieldProblem]:
    """The question of a call, or all that is wrong with it: by its schema, then by its meaning."""
    if found := SHAPE.problems(dict(args)):
        return found
    question = convert(dict(args), Question)
    return list(_meaning(question)) or question


def _meaning(question: Question) -> Iterable[FieldProblem]:
    yield from _unseen("question", question.question)
    for at, option in enumerate(question.options):
        yield from _unseen(f"options[{at}].label", option.label)
    if question.options:
        yield from _repeated("options", [o.label for o in question.options])
        if question.default_value and question.default_value not in {o.label for o in question.options}:
            yield FieldProblem("defaultValue", "invalid_value", "it is none of the options")
    yield from _repeated("fields", [f.id for f in question.fields], "id")
    yield from _repeated("fields", [f.title for f in question.fields], "title")
    for at, one in enumerate(question.fields):
        here = f"fields[{at}]"
        labels = {o.label for o in one.options}
        yield from _unseen(f"{here}.title", one.title)
        yield from _unseen(f"{here}.defaultValue", one.default_value)
        for no, option in enumerate(one.options):
            yield from _unseen(f"{here}.options[{no}].label", option.label)
        yield from _repeated(f"{here}.options", [o.label for o in one.options])
        if one.type in SELECTS and not labels:
            yield FieldProblem(f"{here}.options", "required", "a select needs options")
        if one.type in ("text", "textarea") and labels:
            yield FieldProblem(f"{here}.options", "exclusive", "a text has no options")
        if labels and not one.allow_custom and one.default_value not in labels:
            yield FieldProblem(f"{here}.defaultValue", "invalid_value", "it is none of the options")


def _unseen(where: str, text: str) -> Iterable[FieldProblem]:
    if shows_nothing(text):
        yield FieldProblem(where, "length", "nothing of it can be seen")


def _repeated(where: str, texts: Sequence[str], name: str = "label") -> Iterable[FieldProblem]:
    seen = set[str]()
    for at, text in enumerate(texts):
        if (key := plain(text)) in seen:
            yield FieldProblem(f"{where}[{at}].{name}", "duplicate", "it says the same as one before")
        seen.add(key)


# --- what is known -----------------------------------------------------------------------------------------------


def _points(question: Question) -> list[tuple[str, set[str], str, str]]:
    """(id, keys, title, default) of each point. Two points are one if they share a key; two of one form never are."""
    if not question.fields:
        keys = {f"title:{plain(question.question)}", _of_labels(question.question, question.options)}
        return [(CHOICE, keys, question.question, question.default_value or question.options[0].label)]
    by = [_of_labels(f.title, f.options) for f in question.fields]
    own = [{one} if one and by.count(one) == 1 else set[str]() for one in by]
    return [
        (f.id, {f"id:{f.id.casefold()}", f"title:{plain(f.title)}", *more}, f.title, f.default_value)
        for f, more in zip(question.fields, own, strict=True)
    ]


def _of_labels(title: str, options: Sequence[Option]) -> str:
    """The key of a point by what it lets choose from, however it is called: "" = nothing. Labels that say nothing alone take its title along."""
    labels = sorted(plain(o.label) for o in options)
    bare = all(label in BARE_CHOICES or label.isdecimal() for label in labels)
    return "choice:" + "\0".join([*labels, *([plain(title)] if bare else [])]) if labels else ""


def known(chain: Iterable[Asked], question: Question) -> dict[str, Known]:
    """Points of `question` that the chain has settled, by their id here. The latest word counts; a person's counts before a default.

    A person's word that is none of what may be said here settles nothing; in the place of such a default stands the one of here.
    """
    found: dict[str, Known] = {}
    for asked in chain:
        said = asked.answer or defaults(asked.question)
        for old_id, keys, _, default in _points(asked.question):
            for here, mine, title, own in _points(question):
                assumed, answer = old_id in said.defaulted, said.answers.get(old_id, default)
                fits = _fits(question, here, answer)
                same = keys & mine if asked.question.fields or question.fields else keys & mine - {f"title:{plain(title)}"}
                if same and (fits or assumed) and not (assumed and here in found):
                    found[here] = Known(id=here, title=title, answer=answer if fits else own, assumed=assumed)
    return found


def _fits(question: Question, point: str, answer: str) -> bool:
    """Whether an answer is one of what may be said to a point; in whatever punctuation."""
    options, free = _choices(question, point)
    return free or plain(answer) in {plain(o.label) for o in options}


def _choices(question: Question, point: str) -> tuple[tuple[Option, ...], bool]:
    """The options of a point, and whether another text is taken too."""
    field = next((f for f in question.fields if f.id == point), None)
    if field is None:
        return question.options, question.allow_freeform
    return field.options, field.allow_custom or not field.options


def defaults(question: Question) -> Answer:
    """What stands where nobody was asked, or nobody answered."""
    points = _points(question)
    return Answer(answers={i: default for i, _, _, default in points}, defaulted=tuple(i for i, _, _, _ in points))


def plan(question: Question, chain: Sequence[Asked]) -> Show | Told:
    """What becomes of a question. At the limit of rounds, and for points that repeat, nobody is asked (S1.13, S1.19, S1.21)."""
    have = known(chain, question)
    left = [f for f in question.fields if f.id not in have]
    points = [i for i, _, _, _ in _points(question)]
    if all(i in have for i in points):
        assumed = any(have[i].assumed for i in points)
        return Told("defaulted" if assumed else "reused", "repeated_confirmation_point", tuple(have[i] for i in points))
    if len(chain) >= ROUNDS_MAX:
        stand_in = {i: Known(id=i, title=title, answer=default, assumed=True) for i, _, title, default in _points(question)}
        return Told("defaulted", "confirmation_round_limit", tuple(have.get(i, stand_in[i]) for i in points))
    shown = replace(question, fields=tuple(left)) if question.fields else question
    return Show(shown, len(chain) + 1, tuple(have[i] for i in points if i in have))


# --- what a person says ------------------------------------------------------------------------------------------


def answered(question: Question, form: object) -> Answer | list[FieldProblem]:
    """A person's `form_answer`: `{"answers": {id: text}}`, for a choice `{"choice": text}`, and `{"start": true}` for the defaults of all that

    is left. Optional fields left out take their default. All problems at once; nothing is taken in part.
    """
    if not is_object(form):
        return [FieldProblem("", "wrong_type", "the answer is a JSON object")]
    name, start = "answers" if question.fields else CHOICE, form.get(START) is True
    if start and len(form) == 1:
        return defaults(question)
    if set(form) - ({START} if start else set[str]()) != {name}:
        return [FieldProblem("", "exactly_one", f"give {name}, or start: true, or both")]
    said: object = form[name] if question.fields else {CHOICE: form[name]}
    if not question.fields and isinstance(form[name], str) and starts(form[name], question.options):
        return defaults(question)
    if not is_object(said):
        return [FieldProblem(name, "wrong_type", "it is an object of texts by field id")]
    ids = [f.id for f in question.fields] or [CHOICE]
    found = [FieldProblem(f"answers.{i[:80]}", "unknown_field") for i in said if i not in ids]
    found += [p for i in ids if i in said for p in wrong(question, i, said[i])]
    found += [FieldProblem(f"answers.{f.id}", "required") for f in question.fields if f.required and not start and f.id not in said]
    if found:
        return found
    stand_in = defaults(question).answers
    return Answer(answers={i: said.get(i, stand_in[i]) for i in ids}, defaulted=tuple(i for i in ids if i not in said))


def wrong(question: Question, point: str, value: object) -> Iterable[FieldProblem]:
    """What stands against this answer to one point."""
    where = CHOICE if point == CHOICE and not question.fields else f"answers.{point}"
    if not isinstance(value, str):
        yield FieldProblem(where, "wrong_type", "it is a text")
        return
    if shows_nothing(value) or len(value) > TEXT_MAX:
        yield FieldProblem(where, "length", f"1 to {TEXT_MAX} characters")
        return
    options, free = _choices(question, point)
    if not free and value not in {o.label for o in options}:
        yield FieldProblem(where, "invalid_value", "it is none of the options")


# --- as others see it --------------------------------------------------------------------------------------------


def prompt(show: Show, question_id: str) -> dict[str, Any]:
    """What the person, and the log, is given."""
    return {
        "phase": "question", "kind": show.question.kind, "questionId": question_id, "round": show.round, "maxRounds": ROUNDS_MAX,
        "asked": as_wire(show.question), "known": [as_wire(k) for k in show.known],
    }  # fmt: skip


def told(what: Told, rounds: int) -> dict[str, Any]:
    """What the model hears when nobody was asked."""
    return {
        "phase": what.phase, "defaulted": what.phase == "defaulted", "reason": what.reason, "round": rounds, "maxRounds": ROUNDS_MAX,
        "answers": {k.id: k.answer for k in what.known}, "assumptions": [as_wire(k) for k in what.known if k.assumed],
    }  # fmt: skip


def heard(asked: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    """What the model hears of a person's answer to a prompt: with it all that was known before."""
    question = convert(asked["asked"], Question)
    before = convert(asked["known"], list[Known])
    titles = {i: title for i, _, title, _ in _points(question)}
    assumed = [Known(id=i, title=titles[i], answer=answer.answers[i], assumed=True) for i in answer.defaulted]
    return {
        "phase": "answered", "kind": asked["kind"], "questionId": asked["questionId"], "round": asked["round"], "maxRounds": ROUNDS_MAX,
        "answers": {**{k.id: k.answer for k in before}, **answer.answers}, "answer": as_wire(answer),
        "assumptions": [as_wire(k) for k in [*(k for k in before if k.assumed), *assumed]],
    }  # fmt: skip


def asked(prompted: Mapping[str, Any], evidence: Mapping[str, Any] | None) -> Asked:
    """A round as it stands in the log: the prompt, and what was heard (None = nothing)."""
    return Asked(question=convert(prompted["asked"], Question), answer=convert(evidence["answer"], Answer) if evidence else None)
