"""The forgiving reader behind `json-text/1`: where the objects of a reply stand, and the lexical rungs.

Theory of operation. One walk, no recursion. Outside of brackets only brackets and reasoning tags mean anything; inside, a
lexer that knows strings goes on to the bracket that closes the group and notes an edit for every rung met on the way. What
it notes decides nothing: the edited text must pass the strict parse like any other. Four guards keep a damaged reply from
running as something else: an open string or bracket is never closed (`truncated`), a closing bracket too many, a group
that might be an object but is none, and reasoning tags between the objects refuse the whole reply.
Blanks replace what is taken out, so that no two tokens are glued together.

Seed: S2.15, S2.16, S2.21. The rungs are part of the interpreter's version.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from .objects import Json

#: Nesting allowed in a reply. Part of the interpreter's version, as are the next two.
DEPTH_MAX: Final = 64
#: Bracket groups looked at outside of reasoning; more is not prose around an action.
GROUPS_MAX: Final = 1000
#: Groups among them that may be objects.
OBJECTS_MAX: Final = 64


class Refused(Exception):
    """Nothing is run. `tool` and `told` (its arguments) say what was asked for, where that is known."""

    def __init__(self, code: str, message: str, tool: str = "", told: Json = None) -> None:
        super().__init__(message)
        self.code, self.message, self.tool, self.told = code, message, tool, told


class Piece(NamedTuple):
    """A group that may be an object: its span of the reply, its text after the rungs, their names."""

    start: int
    end: int
    text: str
    repairs: frozenset[str]


class Scan(NamedTuple):
    """The pieces behind the reasoning, which ends at `start`, and what was cut off with it."""

    pieces: list[Piece]
    start: int
    repairs: set[str]


# --- the lexer ---------------------------------------------------------------------------------------------------

_ZERO = "\ufeff\u200b-\u200d\u2060"
_COMMENT = r'//[^\n"“”]*+(?=\n)|/\*[^"“”*]*+(?:\*(?!/)[^"“”*]*+)*+\*/'  # one that holds a quote may be a broken string
_CLOSER = rf"(?:[ \t\r\n\u3000{_ZERO}]|{_COMMENT})*+[}}\]｝］]"
_STRING = r'"(?:[^"\\\x00-\x1f]++|\\[^\x00-\x1f])*+"'
_TOKEN: Final = re.compile(
    "|".join(f"(?P<{kind}>{pattern})" for kind, pattern in {
        "sound": rf'(?:{_STRING}|[^"“”{{}}\[\]｛｝［］,，：/TFN\u3000{_ZERO}]++|,(?!{_CLOSER}))++',
        "opening": r"[{\[｛［]",
        "closing": r"[}\]｝］]",
        "trailing_comma": f"[,，](?={_CLOSER})",
        "comment": _COMMENT,
        "raw_control": r'"(?:[^"\\]++|\\.)*+"',
        "curly": r'“(?:[^“”"\\]++|\\[^“”])*+”',
        "fullwidth": r"[：，\u3000]",
        "bom": f"[{_ZERO}]++",
        "python_literal": r"True\b|False\b|None\b",
        "unended": '["“]|/[/*]',
        "other": "[/TFN”]",
    }.items()),
    re.DOTALL,
)  # fmt: skip
_OUTSIDE: Final = re.compile(r"[{\[｛［}\]｝］]|</?think(?:ing)?>")
_THOUGHT: Final = re.compile(rf"[\s{_ZERO}]*+<(think(?:ing)?)>")
_CONTROL: Final = re.compile(r"\\.|[\x00-\x1f]", re.DOTALL)
#: What makes a group more than a placeholder in prose, such as `{tool}` or `[1]`.
_OBJECT: Final = re.compile("[\"'“”:：]")
_INVISIBLE: Final = re.compile(f"[{_ZERO}]++")
_ASCII: Final = str.maketrans("｛｝［］：，\u3000", "{}[]:, ")
_LITERALS: Final = {"True": "true", "False": "false", "None": "null"}
_ENDS: Final = {"“": "”", "//": "\n", "/*": "*/"}
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


class _Walk:
    """One group being read: the open brackets and the edits so far."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.open: list[str] = []
        self.edits: list[tuple[int, int, str]] = []
        self.repairs: set[str] = set()

    def edit(self, name: str, token: re.Match[str], to: str) -> None:
        self.edits.append((*token.span(), to))
        self.repairs.add(name)


def _bracket(walk: _Walk, token: re.Match[str]) -> None:
    mark = token[0].translate(_ASCII)
    if mark != token[0]:
        walk.edit("fullwidth", token, mark)
    if mark in "}]":
        walk.open.pop()
        return
    walk.open.append(mark)
    if len(walk.open) > DEPTH_MAX:
        raise Refused("too_large", f"Nested deeper than {DEPTH_MAX}.")


def _trailing_comma(walk: _Walk, token: re.Match[str]) -> None:
    """Only after a value. After a bare one in a list it stays: there the loss of a single digit looks the same."""
    at = token.start() - 1
    while walk.text[at] in " \t\r\n":
        at -= 1
    before = walk.text[at]
    if before in '"”}]｝］' or (before.isalnum() and walk.open[-1] == "{"):
        walk.edit("trailing_comma", token, " ")


def _control(char: re.Match[str]) -> str:
    return char[0] if len(char[0]) > 1 else _SHORT.get(char[0], f"\\u{ord(char[0]):04x}")


def _raw_control(walk: _Walk, token: re.Match[str]) -> None:
    walk.edit("raw_control", token, _CONTROL.sub(_control, token[0]))


def _curly(walk: _Walk, token: re.Match[str]) -> None:
    inner = token[0][1:-1]
    clean = _CONTROL.sub(_control, inner)
    walk.edit("fullwidth", token, f'"{clean}"')
    if clean != inner:
        walk.repairs.add("raw_control")


def _unended(walk: _Walk, token: re.Match[str]) -> None:
    """What opens a string or a comment, and none was found: it never ends, or a quote stands where none may."""
    if token[0] == '"' or walk.text.find(_ENDS[token[0]], token.end()) < 0:
        raise Refused("truncated", "The reply ends inside a string or comment. Send one complete object.")
    raise Refused("not_json", "Not JSON: a quote inside a string or comment.")


_RUNGS: Final[dict[str, Callable[[_Walk, re.Match[str]], None]]] = {
    "opening": _bracket,
    "closing": _bracket,
    "trailing_comma": _trailing_comma,
    "comment": lambda walk, token: walk.edit("comment", token, " "),
    "raw_control": _raw_control,
    "curly": _curly,
    "fullwidth": lambda walk, token: walk.edit("fullwidth", token, token[0].translate(_ASCII)),
    "bom": lambda walk, token: walk.edit("bom", token, " "),
    "python_literal": lambda walk, token: walk.edit("python_literal", token, _LITERALS[token[0]]),
    "unended": _unended,
}


def _group(text: str, start: int) -> Piece:
    """Read from an opening bracket to the one that closes it. Raises Refused when there is none."""
    walk = _Walk(text)
    for token in _TOKEN.finditer(text, start):
        rung = _RUNGS.get(token.lastgroup or "")
        if rung is None:
            continue
        rung(walk, token)
        if not walk.open:
            return Piece(start, token.end(), _edited(text, start, token.end(), walk.edits), frozenset(walk.repairs))
    raise Refused("truncated", "The reply ends before its last bracket is closed. Send one complete object.")


def _edited(text: str, start: int, end: int, edits: list[tuple[int, int, str]]) -> str:
    parts: list[str] = []
    for a, b, to in edits:
        parts += (text[start:a], to)
        start = b
    return "".join((*parts, text[start:end]))


# --- the reply ---------------------------------------------------------------------------------------------------


def scan(text: str) -> Scan:
    """All groups of a reply that may be objects, in order, without reasoning. Raises Refused."""
    leading = _THOUGHT.match(text)
    start = at = _after(text, leading) if leading else 0
    repairs = {"think"} if leading else set[str]()
    if leading and _INVISIBLE.search(leading[0]):
        repairs.add("bom")
    groups, pieces = 0, list[Piece]()
    while (mark := _OUTSIDE.search(text, at)) is not None:
        if mark[0] in "{[｛［":
            piece = _group(text, mark.start())
            at, groups = piece.end, groups + 1
            if _may_be_object(piece.text):
                pieces.append(piece)
            if groups > GROUPS_MAX or len(pieces) > OBJECTS_MAX:
                raise Refused("too_large", "Too many objects. Send exactly one.")
        elif mark[0] in "}]｝］":
            raise Refused("not_json", "A bracket is closed that was never opened.")
        elif repairs or mark[0][1] != "/":
            raise Refused("not_json", "Reasoning tags stand between the objects. Send exactly one object after them.")
        else:  # the opening tag was part of the prompt: everything so far was reasoning
            start, at, repairs, pieces = mark.end(), mark.end(), {"think"}, []
    return Scan(pieces, start, repairs)


def _after(text: str, tag: re.Match[str]) -> int:
    close = f"</{tag[1]}>"
    end = text.find(close, tag.end())
    if end < 0:
        raise Refused("truncated", "The reply ends inside its reasoning.")
    return end + len(close)


def _may_be_object(group: str) -> bool:
    return "{" in group and _OBJECT.search(group) is not None


#: Only what is closed on both sides is cut off as a fence or wrapper; a fence that names its language may lack its end.
_NEAR: Final = (
    ("fence", re.compile(r"`{3,}+[A-Za-z0-9_+-]{0,20}\s*+\0\s*+`{3,}+|`{3,}+[A-Za-z]{1,20}\s*+\0\s*+\Z")),
    ("wrapper", re.compile(r"<(tool_call|function_call|action|json|answer|response|output)>\s*+\0\s*+</\1>")),
)


def surroundings(gaps: list[str]) -> set[str]:
    """Names of what stood around the objects; `gaps` are the texts before, between and after them."""
    outside = "\0".join(gap.replace("\0", "?") for gap in gaps)
    bare = _INVISIBLE.sub("", outside)
    names = {"bom"} if bare != outside else set[str]()
    for _ in range(3):
        for name, pattern in _NEAR:
            bare, found = pattern.subn("\0", bare)
            if found:
                names.add(name)
    if bare.strip(" \t\r\n\0"):
        names.add("prose")
    return names
