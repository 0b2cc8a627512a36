"""Word files to blocks: the body walked in order.

The text is the final one: insertions count, deletions do not, and a paragraph whose end mark was deleted runs on into the next. List
numbers are computed as Word does; bullets, `1.` and the like make items, anything else (一、 第一条) stays a paragraph or heading with
that label. Headers, footers and comments are not text of the document and are named as losses.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, structs

from polyloop.formats.blocks import Block, BlockType, Document, Loss, Run, Span, joined, text_of
from polyloop.formats.docx_inline import Inline, M, is_rule, outermost
from polyloop.formats.docx_parts import Numbering, Package, Styles, W, is_on, value, whole_number
from polyloop.formats.docx_table import table_of
from polyloop.formats.limits import MAX_NESTING
from polyloop.formats.problems import unreadable

if TYPE_CHECKING:
    from polyloop.formats.docx_parts import Element

_CODE: Final = frozenset({"source code", "code", "html preformatted", "preformatted text", "macro text", "macro"})
_QUOTE: Final = frozenset({"quote", "intense quote", "block text", "quotations"})
_TITLE: Final = frozenset({"title"})
_HEADING: Final = re.compile(r"heading ([1-9])\Z")
_CONTINUED: Final = re.compile(r"list (continue|bullet|number)(?: ([2-5]))?\Z")
_CONTENTS: Final = re.compile(r"(?:toc \d|toc heading|contents \d|contents heading|table of figures)\Z")
_ITEM_LABEL: Final = re.compile(r"\(?(?:\d{1,4}|[A-Za-z]|[ivxlcIVXLC]{1,7})[.)]\Z")
_BOXES: Final = "\u2610\u2611\u2612"
_BOX: Final = re.compile(rf"([{_BOXES}])[ \t\u3000]+")
_MAX_DEPTH: Final = 8
_WRAPPERS: Final = frozenset({f"{W}sdt", f"{W}sdtContent", f"{W}ins", f"{W}moveTo", f"{W}customXml", f"{W}smartTag"})


def read_docx(name: str, data: bytes) -> Document:
    """Blocks with the number of their body paragraph or table. Raises `corrupt`, `encrypted`, `archive_too_large`, `too_many_characters`."""
    package = Package(name, data)
    root = package.part(package.main)
    body = root.find(f"{W}body") if root is not None else None
    if body is None:
        raise unreadable(name, "corrupt", "its main part has no body")
    reader = _Reader(package)
    reader.walk(body)
    reader.flush()
    reader.footnotes()
    _outside_body(package, reader.losses)
    losses = tuple(Loss(code, count) for code, count in sorted(reader.losses.items()))
    return Document(tuple(_merged_code(reader.blocks)), losses, reader.title or _first_heading(reader.blocks), name, "docx")


def _first_heading(blocks: list[Block]) -> str:
    return text_of(blocks[0].runs) if blocks and blocks[0].type == "heading" and blocks[0].level == 1 else ""


class _Item(Struct, frozen=True):
    type: BlockType = "paragraph"
    depth: int = 0
    number: int = 0
    label: str = ""
    done: bool = False


class _Reader:
    def __init__(self, package: Package) -> None:
        self.package = package
        self.styles = Styles(next((root for _, root in package.related("styles")), None))
        self.numbering = Numbering(next((root for _, root in package.related("numbering")), None))
        self.losses: Counter[str] = Counter({"docx_layout": 1})
        self.inline = Inline(package, self.styles, self.losses)
        self.blocks: list[Block] = []
        self.title = ""
        self.paragraphs = 0
        self.tables = 0
        self.carried: list[Run] = []

    def walk(self, parent: Element, depth: int = 0) -> None:
        if depth > MAX_NESTING:
            self.losses["nested_too_deep"] += 1
            return
        for child in parent:
            if child.tag == f"{W}p":
                self.paragraphs += 1
                self.paragraph(child, Span("paragraph", self.paragraphs, self.paragraphs), depth)
            elif child.tag == f"{W}tbl":
                self.flush()
                self.tables += 1
                table = table_of(child, self.inline, self.label)
                self.add("table", span=Span("table", self.tables, self.tables), table=table)
            elif child.tag in _WRAPPERS:
                gallery = value(child.find(f"{W}sdtPr/{W}docPartObj"), f"{W}docPartGallery")
                if gallery and gallery.lower() == "table of contents":
                    self.paragraphs += sum(1 for _ in child.iter(f"{W}p"))
                    self.losses["contents_table"] += 1
                else:
                    self.walk(child, depth + 1)
            elif child.tag == f"{W}altChunk":
                self.losses["embedded_object"] += 1

    def paragraph(self, element: Element, span: Span, depth: int = 0) -> None:
        properties = element.find(f"{W}pPr")
        style_id = value(properties, f"{W}pStyle")
        if any(_CONTENTS.match(style.name) for style in self.styles.chain(style_id)):
            self.losses["contents_table"] += 1
            return
        found = self.inline.read(element)
        runs = joined([*self.carried, *found.runs])
        self.carried = []
        mark = properties.find(f"{W}rPr") if properties is not None else None
        if mark is not None and (mark.find(f"{W}del") is not None or mark.find(f"{W}moveFrom") is not None):
            self.losses["tracked_changes"] += 1
            self.carried = list(runs)
        else:
            self.put(element, properties, style_id, runs, span)
        for src, alt in found.images:
            self.losses["image_data"] += 1
            self.add("image", span=span, src=src, runs=joined([Run(alt)]))
        for box in found.boxes:
            self.losses["text_box_position" if depth < MAX_NESTING else "nested_too_deep"] += 1
            for inner in outermost(box, f"{W}p") if depth < MAX_NESTING else ():  # what hangs on these comes with them
                self.paragraph(inner, span, depth + 1)

    def put(self, element: Element, properties: Element | None, style_id: str | None, runs: tuple[Run, ...], span: Span) -> None:
        item = self.item(properties, style_id)
        level = self.heading_level(properties, style_id)
        if item == _Item() and not level and self.styles.is_a(style_id, _CODE):  # first: blanks and blank lines are part of it
            self.add("code", runs=joined([Run(text_of(runs))]), span=span)
            return
        if not text_of(runs).strip() and not item.label and item.type == "paragraph":
            if _is_rule(element, properties):
                self.add("divider", span=span)
            return
        runs = _stripped(runs)
        box = _BOX.match(runs[0].text) if runs else None
        if self.styles.is_a(style_id, _TITLE) and not self.title:
            self.title = text_of(runs)
        if level:
            self.add("heading", runs=runs, level=level, label=item.label or (f"{item.number}." if item.number else ""), span=span)
        elif box:
            rest = joined([structs.replace(runs[0], text=runs[0].text[box.end() :]), *runs[1:]])
            self.add("todo", runs=rest, done=box[1] != _BOXES[0], depth=item.depth, span=span)
        elif item.type != "paragraph":
            self.add(item.type, runs=runs, depth=item.depth, number=item.number, label=item.label, done=item.done, span=span)
        elif self.styles.is_a(style_id, _QUOTE):
            self.add("quote", runs=runs, span=span)
        elif self.styles.is_a(style_id, frozenset({"formula"})) or _is_formula(element):
            self.add("formula", runs=(Run(text_of(runs)),), span=span)
        else:
            self.add("paragraph", runs=runs, label=item.label, depth=item.depth, span=span)

    def heading_level(self, properties: Element | None, style_id: str | None) -> int:
        outline = value(properties, f"{W}outlineLvl")
        for style in self.styles.chain(style_id):
            if style.name in _TITLE:
                return 1
            if outline is None and (named := _HEADING.match(style.name)):
                return int(named[1])
            outline = style.outline if outline is None else outline
        level = whole_number(outline, 9) + 1
        return level if level <= 9 else 0

    def numbered(self, properties: Element | None, style_id: str | None) -> tuple[str, int] | None:
        """List and depth of a paragraph: its own say, else its style's."""
        own = properties.find(f"{W}numPr") if properties is not None else None
        list_id, indent = value(own, f"{W}numId"), value(own, f"{W}ilvl")
        for style in self.styles.chain(style_id):
            list_id = style.number if list_id is None else list_id
            indent = style.indent if indent is None else indent
        return None if list_id in (None, "0", "") else (str(list_id), min(whole_number(indent), _MAX_DEPTH))

    def item(self, properties: Element | None, style_id: str | None) -> _Item:
        """What the list numbering of a paragraph makes of it; this counts it."""
        named = next((found for style in self.styles.chain(style_id) if (found := _CONTINUED.match(style.name))), None)
        step = int(named[2] or 1) if named else 0
        place = self.numbered(properties, style_id)
        level = self.numbering.level(*place) if place else None
        if place is None or level is None:
            return _Item(depth=step if named and named[1] == "continue" else 0)
        depth = max(place[1], step - 1)
        if level.form == "bullet":
            if level.shape in _BOXES:
                return _Item("todo", depth, done=level.shape != _BOXES[0])
            return _Item("bulleted", depth) if level.shape.strip() else _Item(depth=depth + 1)
        label, number = self.numbering.label(*place)
        if _ITEM_LABEL.match(label):
            return _Item("numbered", depth, number, "" if label == f"{number}." else label)
        return _Item(label=label)

    def label(self, properties: Element | None, style_id: str | None) -> str:
        """The computed list number of a paragraph, for places that can only show it."""
        item = self.item(properties, style_id)
        return item.label or (f"{item.number}." if item.number else "")

    def add(self, kind: BlockType, **fields: Any) -> None:
        self.blocks.append(Block(kind, order=len(self.blocks), **fields))

    def flush(self) -> None:
        """Text whose paragraph end was deleted before something that is no paragraph."""
        if self.carried:
            self.add("paragraph", runs=joined(self.carried), span=Span("paragraph", self.paragraphs, self.paragraphs))
            self.carried = []

    def footnotes(self) -> None:
        """Notes hold text of the document; they follow it as paragraphs."""
        for kind in ("footnotes", "endnotes"):
            for _, root in self.package.related(kind):
                for number, note in enumerate((each for each in root if each.get(f"{W}type", "normal") == "normal"), 1):
                    self.losses["footnote_position"] += 1
                    for element in note.iter(f"{W}p"):
                        self.paragraph(element, Span("footnote", number, number))
                self.flush()


def _stripped(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """Blanks at the ends carry nothing; ideographic indents stay, they are in every extractor's text."""
    out = list(runs)
    if out:
        out[0] = structs.replace(out[0], text=out[0].text.lstrip(" "))
    while out and not out[-1].text.rstrip():
        out.pop()
    if out:
        out[-1] = structs.replace(out[-1], text=out[-1].text.rstrip())
    return tuple(out)


def _is_rule(element: Element, properties: Element | None) -> bool:
    border = properties.find(f"{W}pBdr") if properties is not None else None
    return is_rule(element) or (border is not None and (is_on(border, f"{W}bottom") or is_on(border, f"{W}top")))


def _is_formula(element: Element) -> bool:
    return any(child.tag in (f"{M}oMathPara", f"{M}oMath") for child in element) and not any(each.text for each in element.iter(f"{W}t"))


def _outside_body(package: Package, losses: Counter[str]) -> None:
    for kind, code in (("header", "header_footer"), ("footer", "header_footer"), ("comments", "comments")):
        for _, root in package.related(kind):
            if any((each.text or "").strip() for each in root.iter(f"{W}t")):
                losses[code] += len(root.findall(f"{W}comment")) or 1


def _merged_code(blocks: list[Block]) -> list[Block]:
    """Word keeps a line of code per paragraph. Blank lines around it are none of it."""
    groups: list[list[Block]] = []
    for block in blocks:
        last = groups[-1][-1] if groups else None
        if last is not None and block.type == last.type == "code" and last.span and block.span and last.span.end + 1 == block.span.start:
            groups[-1].append(block)
        else:
            groups.append([block])
    out: list[Block] = []
    for group in groups:
        made, ending = group[0], group[-1].span
        if made.type == "code":
            text = "\n".join(block.text for block in group).strip("\n")
            if not text.strip():
                continue
            made = structs.replace(made, runs=(Run(text),), span=structs.replace(made.span, end=ending.end) if made.span and ending else None)
        out.append(structs.replace(made, order=len(out)))
    return out
