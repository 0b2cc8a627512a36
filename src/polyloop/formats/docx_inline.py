"""The inside of a Word paragraph: runs with marks, links, field results, and what hangs on it (pictures, text boxes)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from polyloop.formats.blocks import Run, printable
from polyloop.formats.docx_parts import R, W, is_on, value
from polyloop.formats.limits import MAX_CHARACTERS, MAX_NESTING
from polyloop.formats.problems import unreadable

if TYPE_CHECKING:
    from collections import Counter

    from polyloop.formats.docx_parts import Element, Package, Styles

M: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_A: Final = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_V: Final = "{urn:schemas-microsoft-com:vml}"
_RULE: Final = "{urn:schemas-microsoft-com:office:office}hr"
_CODE_STYLES: Final = frozenset({"verbatim char", "code", "html code", "source text", "inline code", "html typewriter", "code char"})
_STRONG_STYLES: Final = frozenset({"strong", "strong emphasis"})
_EMPHASIS_STYLES: Final = frozenset({"emphasis"})
_HYPERLINK_FIELD: Final = re.compile(r'\s*HYPERLINK\s+(\\l\s+)?"([^"]*)"')
_DELETED: Final = frozenset({f"{W}del", f"{W}moveFrom"})
_SIGNS: Final = {f"{W}tab": "\t", f"{W}cr": "\n", f"{W}noBreakHyphen": "-", f"{W}softHyphen": "", f"{W}ptab": "\t"}
_OTHER_MARKS: Final = (f"{W}u", f"{W}vertAlign", f"{W}em", f"{W}dstrike")


class Found(Struct):
    runs: list[Run] = field(default_factory=list[Run])
    images: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    boxes: list[Any] = field(default_factory=list[Any])


class _Field(Struct):
    """A field being read: its instruction comes first, its result after `separate`."""

    code: str = ""
    link: str = ""


class Inline:
    """Reads paragraphs. Fields may span several, so what is open is kept between them."""

    def __init__(self, package: Package, styles: Styles, losses: Counter[str]) -> None:
        self.name = package.name
        self.links = package.relations(package.main)
        self.styles = styles
        self.losses = losses
        self.fields: list[_Field] = []
        self.characters = 0

    def read(self, paragraph: Element) -> Found:
        found = Found()
        self._children(paragraph, found, "", 0)
        return found

    def _children(self, parent: Element, found: Found, link: str, depth: int) -> None:
        if depth > MAX_NESTING:
            self.losses["nested_too_deep"] += 1
            return
        for child in parent:
            tag = child.tag
            if tag == f"{W}r":
                self._run(child, found, link)
            elif tag in _DELETED:
                self.losses["tracked_changes"] += 1
            elif tag in (f"{W}ins", f"{W}moveTo"):
                self.losses["tracked_changes"] += 1
                self._children(child, found, link, depth + 1)
            elif tag == f"{W}hyperlink":
                self._children(child, found, self._target(child) or link, depth + 1)
            elif tag in (f"{M}oMath", f"{M}oMathPara"):
                self.losses["formula_layout"] += 1
                self._put(found, "".join(each.text or "" for each in child.iter(f"{M}t")), {})
            elif tag == f"{W}ruby":
                self._ruby(child, found, link, depth)
            elif tag not in (f"{W}pPr", f"{W}sdtPr", f"{W}smartTagPr"):
                self._children(child, found, link, depth + 1)

    def _target(self, element: Element) -> str:
        relation = self.links.get(element.get(f"{R}id", ""))
        anchor = element.get(f"{W}anchor")
        return relation.target if relation else f"#{anchor}" if anchor else ""

    def _run(self, run: Element, found: Found, link: str) -> None:
        properties = run.find(f"{W}rPr")
        marks = self._marks(properties)
        if is_on(properties, f"{W}vanish"):
            self.losses["hidden_text"] += 1
        for child in run:
            tag = child.tag
            marks["link"] = link or self._field_link()  # a field may end inside the run
            if tag == f"{W}t":
                self._put(found, child.text or "", marks)
            elif tag in _SIGNS:
                self._put(found, _SIGNS[tag], marks)
            elif tag == f"{W}br":
                if child.get(f"{W}type", "textWrapping") == "textWrapping":
                    self._put(found, "\n", marks)
            elif tag == f"{W}sym":
                self.losses["symbol_font"] += 1
            elif tag == f"{W}fldChar":
                self._field(child.get(f"{W}fldCharType", ""))
            elif tag == f"{W}instrText" and self.fields:
                self.fields[-1].code += child.text or ""
            elif tag == f"{W}ruby":
                self._ruby(child, found, link, 1)
            elif tag in (f"{W}drawing", f"{W}pict", f"{W}object"):
                self._hanging(child, found)

    def _marks(self, properties: Element | None) -> dict[str, Any]:
        style = value(properties, f"{W}rStyle")
        marks: dict[str, Any] = {
            "bold": is_on(properties, f"{W}b") or self.styles.is_a(style, _STRONG_STYLES),
            "italic": is_on(properties, f"{W}i") or self.styles.is_a(style, _EMPHASIS_STYLES),
            "strike": is_on(properties, f"{W}strike"),
            "code": self.styles.is_a(style, _CODE_STYLES),
        }
        if any(is_on(properties, path) and value(properties, path) != "baseline" for path in _OTHER_MARKS):
            self.losses["other_marks"] += 1
        return marks

    def _put(self, found: Found, text: str, marks: dict[str, Any]) -> None:
        self.characters += len(text)
        if self.characters > MAX_CHARACTERS:
            raise unreadable(self.name, "too_many_characters", f"it has more than {MAX_CHARACTERS} characters")
        if shown := printable(text):
            found.runs.append(Run(shown, **marks))

    def _field(self, kind: str) -> None:
        if kind == "begin":
            self.fields.append(_Field())
            del self.fields[:-MAX_NESTING]
        elif kind == "separate" and self.fields:
            named = _HYPERLINK_FIELD.match(self.fields[-1].code)
            self.fields[-1].link = ("#" if named[1] else "") + named[2] if named else ""
        elif kind == "end" and self.fields:
            self.fields.pop()

    def _field_link(self) -> str:
        return next((each.link for each in reversed(self.fields) if each.link), "")

    def _ruby(self, element: Element, found: Found, link: str, depth: int) -> None:
        self.losses["ruby"] += 1
        for base in element.findall(f"{W}rubyBase"):
            self._children(base, found, link, depth + 1)

    def _hanging(self, element: Element, found: Found) -> None:
        """A drawing: its text boxes and pictures."""
        boxes, pictures = outermost(element, f"{W}txbxContent"), len(found.images)
        found.boxes.extend(boxes)
        named = next((each for each in element.iter() if each.tag.endswith("}docPr")), None)
        alt = (named.get("descr") or named.get("title") or "") if named is not None else ""
        for each in element.iter():
            if each.tag in (f"{_A}blip", f"{_V}imagedata"):
                relation = self.links.get(each.get(f"{R}embed") or each.get(f"{R}link") or each.get(f"{R}id") or "")
                found.images.append((relation.target if relation else "", printable(alt)))
        if element.tag == f"{W}object":
            self.losses["embedded_object"] += 1
        elif not boxes and len(found.images) == pictures and not is_rule(element):
            self.losses["drawing"] += 1


def is_rule(element: Element) -> bool:
    """A horizontal line as old Word draws it."""
    return any(each.get(_RULE) in ("t", "true", "1") for each in element.iter(f"{_V}rect"))


def outermost(element: Element, tag: str) -> list[Element]:
    found: list[Element] = []
    waiting = [element]
    while waiting:
        each = waiting.pop()
        if each.tag == tag:
            found.append(each)
        else:
            waiting.extend(reversed(each))
    return found
