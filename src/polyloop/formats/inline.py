"""Inline Markdown to runs, and back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import structs

from polyloop.formats.blocks import Run, joined, joint_at, printable, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it import MarkdownIt
    from markdown_it.token import Token

#: Inline HTML that says no more than a mark of ours.
_TAG_MARKS: Final = {
    "strong": "bold", "b": "bold", "em": "italic", "i": "italic", "s": "strike", "del": "strike", "strike": "strike", "code": "code",
}  # fmt: skip
_TAG: Final = re.compile(r"<(/?)([a-zA-Z]+)\s*/?>\Z")
_MARKS: Final = {"strong": "bold", "em": "italic", "s": "strike"}


def runs_of(tokens: Sequence[Token]) -> tuple[tuple[Run, ...], dict[str, int]]:
    """The runs, and how often each kind of loss occurred."""
    runs: list[Run] = []
    losses: dict[str, int] = {}
    marks: dict[str, int] = {}
    links: list[str] = []

    def put(text: str, **more: Any) -> None:
        if not links and not any(marks.values()):  # most text
            runs.append(Run(text, **more))
            return
        marked: dict[str, Any] = {mark: True for mark, depth in marks.items() if depth > 0}
        marked["link"] = links[-1] if links else ""
        runs.append(Run(text, **{**marked, **more}))

    for token in tokens:
        kind = token.type
        name, _, edge = kind.rpartition("_")
        if kind == "text":
            put(token.content)
        elif kind == "code_inline":
            put(token.content, code=True)
        elif kind == "softbreak":
            runs.append(Run("\n", wrap=True))
        elif kind == "hardbreak":
            put("\n")
        elif kind == "link_open":
            links.append(str(token.attrs.get("href", "")))
        elif kind == "link_close":
            links.pop()
        elif name in _MARKS:
            marks[_MARKS[name]] = marks.get(_MARKS[name], 0) + (1 if edge == "open" else -1)
        elif kind == "image":
            losses["inline_image"] = losses.get("inline_image", 0) + 1
            put(alt_of(token), link=str(token.attrs.get("src", "")))
        elif kind == "html_inline":
            tag = _TAG.match(token.content)
            if tag and tag[2].lower() == "br":
                put("\n")
            elif tag and tag[2].lower() in _TAG_MARKS:
                mark = _TAG_MARKS[tag[2].lower()]
                marks[mark] = marks.get(mark, 0) + (-1 if tag[1] else 1)
            else:
                losses["inline_html"] = losses.get("inline_html", 0) + 1
                put(token.content)
        else:
            put(token.content)
    while runs and (runs[-1].wrap or not runs[-1].text):
        runs.pop()  # a line end before markup that yields nothing
    return joined(runs), losses


def alt_of(image: Token) -> str:
    """The name of a picture as it reads: the token's own content is its markup."""
    return text_of(runs_of(image.children or [])[0])


#: How runs are put down in Markdown: where the text stands decides what a line end may look like and how the result is checked.
Place = Literal["block", "heading", "cell"]
_PLACE: Final[dict[Place, tuple[str, int]]] = {"block": ("{}", 1), "heading": ("# {}", 1), "cell": ("| {} |\n|---|\n", 3)}
_GENTLE: Final = re.compile(r"[\\`*\[]|(?<!\w)_|_(?!\w)|~(?=~)|<(?=[A-Za-z/!?])|&(?=#?\w+;)|\$(?=\$)")
_LINE_START: Final = re.compile(r"(?m)^([ \t]*)(?:([-+>#=|:~])|(\d{1,9})([.)]))")
_STRICT: Final = re.compile(r"[!-/:-@\[-`{-~]")
_ONLY_BREAK: Final = re.compile(r"\s*<br>\s*")
_ODD_BLANK: Final = re.compile(r"^[ \t]+|[ \t]+$|(?<=[ \t])[ \t]+|[\t\n\r\x85\u2028\u2029]| (?=\n)|(?<=\n) ")


def markdown_of(runs: tuple[Run, ...], reader: MarkdownIt, place: Place = "block") -> str:
    """Markdown that reads back as exactly these runs.

    The pleasant spelling is tried first and read back; where CommonMark would see it otherwise (marks that touch Chinese punctuation,
    text that looks like markup) the strict spelling is used: every sign escaped, marks as HTML tags.
    """
    wanted = joined([_placed(runs, at, place) for at in range(len(runs))])
    pleasant = "".join(_pleasant(run) for run in wanted)
    if place != "block":
        pleasant = pleasant.replace("\\\n", "<br>")
    if place == "cell":
        pleasant = pleasant.replace("|", "\\|")
    else:
        pleasant = _LINE_START.sub(lambda m: f"{m[1]}\\{m[2]}" if m[2] else f"{m[1]}{m[3]}\\{m[4]}", pleasant)
    if _reads_as(pleasant, wanted, reader, place):
        return pleasant
    strict = "".join(_strict(run) for run in wanted)
    return strict.replace("<br>", "&#10;") if _ONLY_BREAK.fullmatch(strict) else strict  # a tag alone would be a block of HTML


def _placed(runs: tuple[Run, ...], at: int, place: Place) -> Run:
    """A source's own line end survives in a block only."""
    run = structs.replace(runs[at], text=printable(runs[at].text))
    return Run(joint_at(runs, at)) if run.wrap and place != "block" else run


def _reads_as(text: str, wanted: tuple[Run, ...], reader: MarkdownIt, place: Place) -> bool:
    frame, at = _PLACE[place]
    tokens = reader.parse(frame.format(text))
    found = next((token for token in tokens if token.type == "inline"), None)
    if found is None or tokens[0].type not in ("paragraph_open", "heading_open", "table_open"):
        return not wanted
    return sum(token.type == "inline" for token in tokens) == 1 and tokens.index(found) >= at and runs_of(found.children or [])[0] == wanted


def _pleasant(run: Run) -> str:
    if run.wrap:
        return "\n"
    if run.code:
        fence = "`" * (1 + max((len(ticks) for ticks in re.findall("`+", run.text)), default=0))
        pad = " " if run.text.startswith("`") or run.text.endswith("`") else ""
        text = f"{fence}{pad}{run.text}{pad}{fence}"
    else:
        text = _GENTLE.sub(lambda m: "\\" + m[0], run.text).replace("\n", "\\\n")
    for marked, sign in ((run.strike, "~~"), (run.italic, "*"), (run.bold, "**")):
        text = f"{sign}{text}{sign}" if marked else text
    return f"[{text}]({_target(run.link)})" if run.link else text


def _strict(run: Run) -> str:
    if run.wrap:
        return "\n"
    text = _STRICT.sub(lambda m: "\\" + m[0], run.text)
    text = _ODD_BLANK.sub(lambda m: "".join("<br>" if char == "\n" else f"&#{ord(char)};" for char in m[0]), text)
    for marked, tag in ((run.code, "code"), (run.strike, "s"), (run.italic, "em"), (run.bold, "strong")):
        text = f"<{tag}>{text}</{tag}>" if marked else text
    return f"[{text}]({_target(run.link)})" if run.link else text


def _target(link: str) -> str:
    plain = re.sub(r"[\r\n]", "", printable(link))
    if re.fullmatch(r"[^\s<>()\\&*_`\[\]|]+", plain):
        return plain
    return "<" + re.sub(r"[<>\\&|*_`]", lambda m: "\\" + m[0], plain) + ">"
