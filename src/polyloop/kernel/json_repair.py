"""The forgiving reader behind `json-text/1`: where the objects of a reply stand, and the lexical rungs.

Theory of operation. One walk, no recursion. Outside of brackets only brackets and reasoning tags mean anything; inside, a
lexer that knows strings goes on to the bracket that closes the group and rewrites what a rung knows. That decides nothing:
the text must pass the strict parse like any other. Four guards keep a damaged reply from running as something else: an open
string or bracket is never closed, a closing bracket too many, a group that looks like an object but is none, and reasoning
tags between objects refuse the whole reply. What is taken out leaves a blank, so that no two tokens are glued together.

Seed: S2.15, S2.16, S2.21. Rungs and limits are part of the interpreter's version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from .objects import Json

DEPTH_MAX: Final = 64
#: Bracket groups outside of reasoning, and those among them that look like objects: more is not prose around an action.
GROUPS_MAX: Final = 1000
OBJECTS_MAX: Final = 64


class Refused(Exception):
    """Nothing is run. `tool` and `told` (its arguments) say what was asked for, where that is known."""

    def __init__(self, code: str, message: str, tool: str = "", told: Json = None) -> None:
        super().__init__(message)
        self.code, self.message, self.tool, self.told = code, message, tool, told


class Piece(NamedTuple):
    """A group that looks like an object: its span of the reply, its text after the rungs, their names."""

    start: int
    end: int
    text: str
    repairs: frozenset[str]


_ZERO = "[\ufeff\u200b-\u200d\u2060]"
#: Beside structure and not touching a number: elsewhere it may stand for a lost sign, digit or member.
_LOOSE = rf'(?<![\w.+-])(?:(?<=["{{}},:]){_ZERO}++|{_ZERO}++(?=["{{}},:]))(?![\w.+-])'
#: One that holds a quote may be a broken string.
_COMMENT = r'//[^\n"“”]*+(?=\n)|/\*[^"“”*]*+(?:\*(?!/)[^"“”*]*+)*+\*/'
_CLOSER = rf"(?:[ \t\r\n]|{_ZERO}|{_COMMENT})*+[}}\]]"
_TOKEN: Final = re.compile(
    "|".join(f"(?P<{kind}>{pattern})" for kind, pattern in {
        "sound": r'(?:"(?:[^"\\\x00-\x1f]++|\\[^\x00-\x1f])*+"' rf'|[^"“”{{}}\[\],，：/TFN{_ZERO[1:]}++|,(?!{_CLOSER}))++',
        "opening": r"[{\[]",
        "closing": r"[}\]]",
        "trailing_comma": f"[,，](?={_CLOSER})",
        "comment": _COMMENT,
        "raw_control": r'"(?:[^"\\]++|\\.)*+"',
        "fullwidth": r'“(?:[^“”"\\\x00-\x1f]++|\\[^“”\x00-\x1f])*+”|：|(?<![0-9])，|，(?![0-9])',
        "bom": _LOOSE,
        "python_literal": r"True\b|False\b|None\b",
        "unended": '["“]|/[/*]',
        "other": f"[/TFN”，]|{_ZERO}++",
    }.items()),
    re.DOTALL,
)  # fmt: skip
_ENDS: Final = {"“": "”", "//": "\n", "/*": "*/"}
_CONTROL: Final = re.compile(r"\\.|[\x00-\x1f]", re.DOTALL)


def _without_comma(token: re.Match[str]) -> str | None:
    """Only after a value, and not after a digit: there it may stand for a lost one, in a list or in the number."""
    at = token.start() - 1
    while token.string[at] in " \t\r\n":
        at -= 1
    return " " if token.string[at] in '"”}]' or token.string[at].isalpha() else None


#: What a rung makes of its token, None = leaves it. Rungs are named as in `repairs`.
_RUNGS: Final[dict[str, Callable[[re.Match[str]], str | None]]] = {
    "trailing_comma": _without_comma,
    "comment": lambda _: " ",
    "raw_control": lambda token: _CONTROL.sub(lambda c: c[0] if c[0][0] == "\\" else json.dumps(c[0])[1:-1], token[0]),
    "fullwidth": lambda token: f'"{token[0][1:-1]}"' if token[0][0] == "“" else {"：": ":", "，": ","}[token[0]],
    "bom": lambda _: " ",
    "python_literal": lambda token: {"True": "true", "False": "false"}.get(token[0], "null"),
}


def _group(text: str, start: int) -> Piece:
    """Read from an opening bracket to the one that closes it. Raises Refused when there is none."""
    depth, done, parts, repairs = 0, start, list[str](), set[str]()
    for token in _TOKEN.finditer(text, start):
        kind = token.lastgroup or ""
        if kind == "opening":
            depth += 1
            if depth > DEPTH_MAX:
                raise Refused("too_large", f"Nested deeper than {DEPTH_MAX}.")
        elif kind == "closing":
            depth -= 1
            if not depth:
                return Piece(start, token.end(), "".join((*parts, text[done : token.end()])), frozenset(repairs))
        elif kind == "unended":
            if token[0] != '"' and _ENDS[token[0]] in text[token.end() :]:
                raise Refused("not_json", "Not JSON: a quote inside a string or comment.")
            break
        elif (rung := _RUNGS.get(kind)) is not None and (to := rung(token)) is not None:
            parts += (text[done : token.start()], to)
            done = token.end()
            repairs.add(kind)
    raise Refused("truncated", "The reply ends before its last bracket is closed. Send one complete object.")


_OUTSIDE: Final = re.compile(r"[{\[}\]]|</?think(?:ing)?>")
_THOUGHT: Final = re.compile(rf"([\s{_ZERO[1:]}*+)<(think(?:ing)?)>(.*?</\2>)?", re.DOTALL)
#: More than a placeholder in prose, such as `{tool}` or `[1]`.
_OBJECT: Final = re.compile("[\"'“”:：]")


def scan(text: str) -> tuple[list[Piece], int, set[str]]:
    """All groups that look like objects, in order; where the reasoning before them ends; what was cut off with it. Raises Refused."""
    pieces, groups, start, repairs = list[Piece](), 0, 0, set[str]()
    if (leading := _THOUGHT.match(text)) is not None:
        if leading[3] is None:
            raise Refused("truncated", "The reply ends inside its reasoning.")
        start, repairs = leading.end(), {"think", "bom"} if re.search(_ZERO, leading[1]) else {"think"}
    at = start
    while (mark := _OUTSIDE.search(text, at)) is not None:
        if mark[0] in "{[":
            piece = _group(text, mark.start())
            at, groups = piece.end, groups + 1
            if "{" in piece.text and _OBJECT.search(piece.text):
                pieces.append(piece)
            if groups > GROUPS_MAX or len(pieces) > OBJECTS_MAX:
                raise Refused("too_large", "Too many objects. Send exactly one.")
        elif mark[0] in "}]":
            raise Refused("not_json", "A bracket is closed that was never opened.")
        elif repairs or mark[0][1] != "/":
            raise Refused("not_json", "Reasoning tags stand between the objects. Send exactly one object after them.")
        else:  # the opening tag was part of the prompt: everything so far was reasoning
            start, at, repairs, pieces = mark.end(), mark.end(), {"think"}, []
    return pieces, start, repairs


#: Only what is closed on both sides is cut off as a fence or wrapper; a fence that names its language may lack its end.
_NEAR: Final = (
    ("fence", re.compile(r"`{3,}+[A-Za-z0-9_+-]{0,20}\s*+\0\s*+`{3,}+|`{3,}+[A-Za-z]{1,20}\s*+\0\s*+\Z")),
    ("wrapper", re.compile(r"<(tool_call|function_call|action|json|answer|response|output)>\s*+\0\s*+</\1>")),
)


def surroundings(gaps: Iterable[str]) -> set[str]:
    """Names of what stood around the objects; `gaps` are the texts before, between and after them."""
    outside = "\0".join(gap.replace("\0", "?") for gap in gaps)
    bare = re.sub(_ZERO, "", outside)
    names = {"bom"} if bare != outside else set[str]()
    for name, pattern in _NEAR * 2:
        bare, found = pattern.subn("\0", bare)
        if found:
            names.add(name)
    return names | {"prose"} if bare.strip(" \t\r\n\0") else names
