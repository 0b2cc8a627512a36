"""The walk over a sanitised page: elements in, blocks out."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final

from msgspec import structs

from polyloop.formats.blocks import Align, Block, BlockType, Run, joined, text_of
from polyloop.formats.html_table import TableParts
from polyloop.formats.limits import MAX_CHARACTERS, MAX_NESTING
from polyloop.formats.links import safe_link
from polyloop.formats.problems import unreadable

HEADINGS: Final = {f"h{level}": level for level in range(1, 7)}
BREAKS: Final = frozenset({
    "p", "div", "section", "article", "header", "footer", "nav", "main", "aside", "address", "figure", "figcaption", "form", "fieldset", "legend",
    "details", "summary", "dl", "dt", "dd", "center", "caption", "body", "hgroup", "search", "menu", "dialog",
})  # fmt: skip
MARKS: Final = {
    "strong": "bold", "b": "bold", "em": "italic", "i": "italic", "cite": "italic", "var": "italic", "dfn": "italic", "s": "strike",
    "del": "strike", "strike": "strike", "code": "code", "kbd": "code", "samp": "code", "tt": "code",
}  # fmt: skip
OTHER_MARKS: Final = frozenset({"u", "sub", "sup", "mark", "ins"})
TABLE: Final = frozenset({"table", "thead", "tbody", "tfoot", "tr", "th", "td"})
_SIDE: Final = re.compile(r"text-align\s*:\s*(left|center|right)")
_BLANKS: Final = re.compile(r"[ \t\r\n\f]+")
_BOX: Final = re.compile("([\u2610\u2611\u2612])[ \u3000]*")


class _List:
    def __init__(self, kind: BlockType, number: int) -> None:
        self.kind: BlockType = kind
        self.number = number
        #: How many containers it stands in; `bare` = it stands in a list and in none of its items, and is one level deeper all the same.
        self.inside = 0
        self.bare = False


class Walk:
    """Over what the sanitiser lets through: every element is closed, in order."""

    def __init__(self, name: str, losses: Counter[str]) -> None:
        self.name, self.losses = name, losses
        self.blocks: list[Block] = []
        self._runs: list[Run] = []
        self._images: list[tuple[str, str]] = []
        self._marks: Counter[str] = Counter()
        self._links: list[str] = []
        self._lists: list[_List] = []
        self._containers: list[Block | None] = []
        self._level = 0
        self._pre: list[str] = []
        self._in_pre = 0
        self._tables: list[TableParts] = []
        self._chars = 0

    # --- elements

    def start(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        if "hidden" in given:
            self.losses["hidden_text"] += 1
        if tag in MARKS:
            self._marks[MARKS[tag]] += 1
            if tag == "code" and self._in_pre:
                self._pre.append(given.get("class", ""))
        elif tag in OTHER_MARKS:
            self.losses["other_marks"] += 1
        elif tag in TABLE:
            self._table(tag, given)
        else:
            self._other(tag, given)

    def end(self, tag: str) -> None:
        if tag in MARKS:
            self._marks[MARKS[tag]] -= 1
        elif tag == "a":
            self._links.pop()
        elif tag in TABLE:
            self._end_table(tag)
        elif tag in HEADINGS or tag == "pre":
            self.flush()
            self._level = 0
            self._in_pre -= tag == "pre"
        elif tag in ("ul", "ol"):
            self.flush()
            if self._lists.pop().bare:
                self._containers.pop()
        elif tag in ("li", "blockquote"):
            self.flush()
            self._settle()
            self._containers.pop()
        elif tag in BREAKS:
            self.flush()

    def _other(self, tag: str, given: dict[str, str]) -> None:
        if tag == "br":
            self._runs.append(self._run("\n", "\n"))  # marked, so that it outlives the joining of blanks
        elif tag == "a":
            self._links.append(given.get("href", ""))
        elif tag == "img":
            self._image(given)
        elif tag == "input":
            self._input(given)
        elif tag in ("rt", "rp", "ruby"):
            self.losses["ruby"] += tag == "ruby"
        elif self._tables:
            self._in_cell(tag)
        else:
            self._block(tag, given)

    def _block(self, tag: str, given: dict[str, str]) -> None:
        self.flush()
        if tag in HEADINGS:
            self._level = HEADINGS[tag]
        elif tag == "pre":
            self._in_pre += 1
            self._pre = [given.get("class", "")]
        elif tag in ("ul", "ol"):
            start = given.get("start", "")
            self._list(_List("numbered" if tag == "ol" else "bulleted", int(start) if re.fullmatch(r"-?\d{1,6}", start) else 1))
        elif tag in ("li", "blockquote"):
            self._settle()
            self._open(tag, given)
        elif tag == "hr":
            self._add("divider")
        elif tag == "dl":
            self.losses["definition_list"] += 1

    def _list(self, made: _List) -> None:
        made.bare = bool(self._lists) and self._lists[-1].inside == len(self._containers)
        if made.bare:
            self._containers.append(None)
        made.inside = len(self._containers)
        self._lists.append(made)

    def _open(self, tag: str, given: dict[str, str]) -> None:
        if tag == "blockquote":
            made = Block("quote")
        else:
            place = self._lists[-1] if self._lists else _List("bulleted", 1)
            value = given.get("value", "")
            place.number = int(value) if re.fullmatch(r"\d{1,6}", value) else place.number
            made = Block(place.kind, number=place.number if place.kind == "numbered" else 0)
            place.number += 1
        if len(self._containers) >= MAX_NESTING:
            self.losses["nested_too_deep"] += 1
        self._containers.append(made)

    def _in_cell(self, tag: str) -> None:
        """Blocks inside a cell become its lines."""
        if self._runs and (tag in BREAKS or tag in HEADINGS or tag in ("li", "pre", "blockquote", "hr")):
            self._runs.append(Run("\n", link="\n"))
        if tag in ("ul", "ol", "pre", "blockquote") or tag in HEADINGS:
            self.losses["cell_blocks"] += 1
        if tag in ("ul", "ol"):
            self._lists.append(_List("bulleted", 1))
        elif tag in ("li", "blockquote"):
            self._containers.append(None)
        elif tag == "pre":
            self._in_pre += 1
            self._pre = [""]

    def _image(self, given: dict[str, str]) -> None:
        self.losses["image_data"] += 1
        src = given.get("src", "")
        src = src[: src.find(",")] if src.startswith("data:") else src
        if self._tables:
            self._runs.append(Run(given.get("alt", "") or src, link=safe_link(src)))
        else:
            self._images.append((src, given.get("alt", "")))
            self._runs.append(Run("", link=f"\n{len(self._images) - 1}"))

    def _input(self, given: dict[str, str]) -> None:
        """A checkbox at the head of an item makes it a todo; other fields are no text."""
        top = self._containers[-1] if self._containers else None
        if given.get("type", "").lower() == "checkbox" and top is not None and top.type != "quote" and not _said(self._runs):
            self._containers[-1] = top.edited(type="todo", number=0, done="checked" in given)
        elif given.get("type", "").lower() != "hidden":
            self.losses["form_fields"] += 1

    # --- text

    def text(self, data: str) -> None:
        self._chars += len(data)
        if self._chars > MAX_CHARACTERS:
            raise unreadable(self.name, "too_many_characters", f"it has more than {MAX_CHARACTERS} characters")
        self._runs.append(self._run(data if self._in_pre else _BLANKS.sub(" ", data)))

    def _run(self, text: str, mark: str = "") -> Run:
        marks: dict[str, Any] = {name: True for name, count in self._marks.items() if count > 0}
        return Run(text, link=mark + (self._links[-1] if self._links else ""), **marks)

    def flush(self) -> None:
        """What was said since the last block becomes one."""
        if self._tables:
            return
        runs, self._runs = self._runs, []
        images, self._images = self._images, []
        if self._in_pre and not self._level:
            self._code(text_of(tuple(runs)))
            return
        alone = not _said(runs)
        if not alone:
            self.losses["inline_image"] += len(images)
            runs = [_inline(run, images) for run in runs]
            self._paragraph(_tidied(runs))
        for src, alt in images if alone else ():
            self._settle()
            self._add("image", src=src, runs=joined([Run(alt)]))

    def _paragraph(self, runs: tuple[Run, ...]) -> None:
        top = self._containers[-1] if self._containers else None
        if self._level:
            self._settle()
            self._add("heading", runs=runs, level=self._level)
        elif top is not None:
            box = _BOX.match(runs[0].text) if top.type == "bulleted" else None
            if box:
                rest = joined([Run(runs[0].text[box.end() :]), *runs[1:]])
                top, runs = top.edited(type="todo", done=box[1] != "\u2610"), rest
            self._containers[-1] = None
            self._add(top.type, up=1, runs=runs, number=top.number, done=top.done)
        else:
            self._add("paragraph", runs=runs)

    def _code(self, text: str) -> None:
        classes = " ".join(self._pre).split()
        info = next((c.removeprefix("language-") for c in classes if c.startswith("language-")), "")
        info = info or next((c for c in classes if c not in ("formula", "code", "raw", "sourceCode")), "")
        text = text.removeprefix("\n").removesuffix("\n")
        if text:
            self._settle()
            self._add("formula" if "formula" in classes else "code", runs=(Run(text),), info="" if "formula" in classes else info)

    def _settle(self) -> None:
        """A container that has said nothing yet, and something else comes: it stands without text."""
        for at, top in enumerate(self._containers):
            if top is not None:
                self._containers[at] = None
                self._add(top.type, up=len(self._containers) - at, number=top.number, done=top.done)

    def _add(self, kind: BlockType, up: int = 0, **fields: Any) -> None:
        depth = min(len(self._containers) - up, MAX_NESTING)
        self.blocks.append(Block(kind, depth=depth, order=len(self.blocks), **fields))

    # --- tables

    def _table(self, tag: str, given: dict[str, str]) -> None:
        if tag == "table":
            if self._tables:
                self.losses["nested_table"] += 1
            else:
                self.flush()
                self._settle()
            around = self._taken()
            self._tables.append(TableParts([*around, Run("\n", link="\n")] if _said(around) else []))
        elif not self._tables:
            return
        elif tag in ("td", "th"):
            side = given.get("align", "") or (said[1] if (said := _SIDE.search(given.get("style", "").lower())) else "")
            self._taken()  # blanks between cells
            self._tables[-1].cell(given, _align(side), head=tag == "th")
        elif tag == "tr":
            self._tables[-1].row()
        else:
            self._tables[-1].part(tag)

    def _taken(self) -> list[Run]:
        runs, self._runs = self._runs, []
        return runs

    def _end_table(self, tag: str) -> None:
        if not self._tables:
            return
        if tag in ("td", "th"):
            self._tables[-1].end_cell(_tidied(self._taken()))
        elif tag == "table":
            parts = self._tables.pop()
            if self._tables:  # in a cell of another: its text stays there
                self._runs = [*parts.around, *(run for cell in parts.texts() for run in (*cell, Run("\n", link="\n")))]
            elif parts.rows:
                self._add("table", table=parts.made(self.name))


def _align(text: str) -> Align:
    side = text.lower()
    return side if side in ("left", "center", "right") else ""


def _said(runs: list[Run]) -> bool:
    return any(run.text.strip() for run in runs)


def _inline(run: Run, images: list[tuple[str, str]]) -> Run:
    """An image among text is a link with its name."""
    if run.text or not run.link.startswith("\n"):
        return run
    src, alt = images[int(run.link[1:])]
    return Run(alt or src, link=safe_link(src))


def _tidied(runs: list[Run]) -> tuple[Run, ...]:
    """Blanks as a browser shows them: one between words, none at the ends of lines."""
    out: list[Run] = []
    blank = True
    for run in runs:
        if run.text == "\n" and run.link.startswith("\n"):
            while out and out[-1].text.endswith(" "):
                out[-1] = structs.replace(out[-1], text=out[-1].text[:-1])
                out = out if out[-1].text else out[:-1]
            out.append(structs.replace(run, link=run.link[1:]))
            blank = True
            continue
        text = run.text[1:] if blank and run.text.startswith(" ") else run.text
        if text:
            out.append(structs.replace(run, text=text))
            blank = text.endswith(" ")
    while out and not out[-1].text.rstrip():
        out.pop()
    if out:
        out[-1] = structs.replace(out[-1], text=out[-1].text.rstrip())
    return joined(out)
