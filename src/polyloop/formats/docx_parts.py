"""The parts of a Word file around its text: relations, styles, list numbering.

Read straight from the XML: the text needs tracked changes, field codes, text boxes and computed list numbers, none of which a document
object model gives, so one would only be a second way to open the archive.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

from msgspec import Struct, field

from polyloop.formats.archive import unpack
from polyloop.formats.limits import MAX_NESTING, MAX_XML_TAGS
from polyloop.formats.numerals import numeral
from polyloop.formats.office import refuse_binary, xml_text
from polyloop.formats.problems import unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    Element = ET.Element[str]

W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
R: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_RELATION: Final = "{http://schemas.openxmlformats.org/package/2006/relationships}Relationship"
#: ISO "strict" files say the same under other names.
_STRICT_NAMES: Final = (
    ("http://purl.oclc.org/ooxml/wordprocessingml/main", "http://schemas.openxmlformats.org/wordprocessingml/2006/main"),
    ("http://purl.oclc.org/ooxml/officeDocument/relationships", "http://schemas.openxmlformats.org/officeDocument/2006/relationships"),
    ("http://purl.oclc.org/ooxml/officeDocument/math", "http://schemas.openxmlformats.org/officeDocument/2006/math"),
    ("http://purl.oclc.org/ooxml/drawingml/main", "http://schemas.openxmlformats.org/drawingml/2006/main"),
)
_MC: Final = "{http://schemas.openxmlformats.org/markup-compatibility/2006}AlternateContent"


class Relation(Struct, frozen=True):
    kind: str
    target: str
    external: bool


class Package:
    """The XML parts of one file, parsed when asked for. Raises `corrupt`, `encrypted`, `archive_too_large`."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        refuse_binary(name, data, "Word file, not docx")
        self._parts = unpack(name, data, (".xml", ".rels"))
        main = [relation for relation in self.relations("").values() if relation.kind == "officeDocument"]
        if not main or main[0].target not in self._parts:
            raise unreadable(name, "corrupt", "it is an archive without a Word document")
        self.main = main[0].target

    def part(self, path: str) -> Element | None:
        data = self._parts.get(path)
        if data is None:
            return None
        text = xml_text(self.name, path, data, MAX_XML_TAGS)
        for strict, usual in _STRICT_NAMES:
            text = text.replace(strict, usual)
        try:
            return _one_of_each(ET.fromstring(text))  # noqa: S314 - no declarations get this far
        except (ET.ParseError, ValueError, LookupError) as error:
            raise unreadable(self.name, "corrupt", f"its part {path} is not XML ({error})") from error

    def relations(self, source: str) -> dict[str, Relation]:
        """Relations of a part (`""`: of the package) by id; internal targets as part names."""
        folder, _, file = source.rpartition("/")
        root = self.part(posixpath.join(folder, "_rels", f"{file}.rels"))
        found: dict[str, Relation] = {}
        for each in root.iter(_RELATION) if root is not None else ():
            external = each.get("TargetMode") == "External"
            target = each.get("Target", "")
            path = target if external else posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
            found[each.get("Id", "")] = Relation(each.get("Type", "").rpartition("/")[2], path, external)
        return found

    def related(self, kind: str) -> Iterator[tuple[str, Element]]:
        """The parts that the main part is related to in this way."""
        for relation in self.relations(self.main).values():
            if relation.kind == kind and not relation.external and (root := self.part(relation.target)) is not None:
                yield relation.target, root


def _one_of_each(root: Element) -> Element:
    """Of alternatives the first is kept, in the place of all: else what they say would be read twice, or nowhere."""
    parents = [each for each in root.iter() if any(child.tag == _MC for child in each)]
    for parent in reversed(parents):  # inner ones first
        parent[:] = [kept for child in parent for kept in (next(iter(child), ()) if child.tag == _MC else (child,))]
    return root


def value(element: Element | None, path: str) -> str | None:
    """`w:val` of a child, None where there is none."""
    found = element.find(path) if element is not None else None
    return None if found is None else found.get(f"{W}val", "")


def is_on(element: Element | None, path: str) -> bool:
    """A switch such as `w:b`: there, and not switched off."""
    return value(element, path) not in (None, "0", "false", "off", "none")


class Style(Struct, frozen=True):
    name: str
    based_on: str
    outline: str | None
    number: str | None
    indent: str | None


class Styles:
    """Styles by id, asked along their chain of ancestors."""

    def __init__(self, root: Element | None) -> None:
        self._styles: dict[str, Style] = {}
        for each in root.iter(f"{W}style") if root is not None else ():
            own, numbers = each.find(f"{W}pPr"), each.find(f"{W}pPr/{W}numPr")
            self._styles[each.get(f"{W}styleId", "")] = Style(
                (value(each, f"{W}name") or "").lower(), value(each, f"{W}basedOn") or "",
                value(own, f"{W}outlineLvl"), value(numbers, f"{W}numId"), value(numbers, f"{W}ilvl"),
            )  # fmt: skip

    def chain(self, style_id: str | None) -> Iterator[Style]:
        for _ in range(MAX_NESTING):
            style = self._styles.get(style_id or "")
            if style is None:
                return
            yield style
            style_id = style.based_on

    def is_a(self, style_id: str | None, names: frozenset[str]) -> bool:
        return any(style.name in names for style in self.chain(style_id))


class Level(Struct, frozen=True):
    """One level of a list: `shape` like `%1、` or `（%1）`, `form` of its numeral (`bullet` for none)."""

    form: str
    shape: str
    start: int
    legal: bool


class ListSpec(Struct, frozen=True):
    abstract: str
    levels: dict[int, Level]
    restarts: dict[int, int] = field(default_factory=dict[int, int])


class Numbering:
    """Counts list paragraphs as a word processor does, and spells their labels."""

    def __init__(self, root: Element | None) -> None:
        abstract = {each.get(f"{W}abstractNumId", ""): _levels(each) for each in (root.iter(f"{W}abstractNum") if root is not None else ())}
        self._lists: dict[str, ListSpec] = {}
        self._counts: dict[str, list[int]] = {}
        self._restarted: set[tuple[str, int]] = set()
        for each in root.iter(f"{W}num") if root is not None else ():
            base = value(each, f"{W}abstractNumId") or ""
            levels = dict(abstract.get(base, {}))
            restarts: dict[int, int] = {}
            for override in each.findall(f"{W}lvlOverride"):
                levels.update(_levels(override))
                if (start := value(override, f"{W}startOverride")) is not None:
                    restarts[whole_number(override.get(f"{W}ilvl"))] = whole_number(start)
            self._lists[each.get(f"{W}numId", "")] = ListSpec(base, levels, restarts)

    def level(self, list_id: str, depth: int) -> Level | None:
        spec = self._lists.get(list_id)
        return spec.levels.get(depth) if spec else None

    def label(self, list_id: str, depth: int) -> tuple[str, int]:
        """The label of the next paragraph of this list at this depth, and its number."""
        spec = self._lists[list_id]
        counts = self._counts.setdefault(spec.abstract, [])
        if depth in spec.restarts and (list_id, depth) not in self._restarted:
            self._restarted.add((list_id, depth))
            del counts[depth:]
        while len(counts) <= depth:
            at = len(counts)
            start = spec.restarts.get(at, spec.levels[at].start if at in spec.levels else 1)
            counts.append(start if at < depth else start - 1)
        del counts[depth + 1 :]
        counts[depth] += 1
        level = spec.levels[depth]
        shape = level.shape
        for at in range(min(depth + 1, 9)):
            form = "decimal" if level.legal or at not in spec.levels else spec.levels[at].form
            shape = shape.replace(f"%{at + 1}", numeral(counts[at], form))
        return shape, counts[depth]


def _levels(parent: Element) -> dict[int, Level]:
    found: dict[int, Level] = {}
    for each in parent.findall(f"{W}lvl"):
        form, shape, start = (value(each, f"{W}{tag}") for tag in ("numFmt", "lvlText", "start"))
        found[whole_number(each.get(f"{W}ilvl"))] = Level(form or "decimal", shape or "", whole_number(start, 1), is_on(each, f"{W}isLgl"))
    return found


def whole_number(text: str | None, default: int = 0) -> int:
    """Small whole numbers only: they become list depths."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= 6 else default
