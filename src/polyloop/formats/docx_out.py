"""Blocks to a Word file. The same tree gives the same bytes: no clock, no random ids."""

from __future__ import annotations

import io
import re
import zipfile
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape, quoteattr

from polyloop.formats.blocks import LIST_TYPES, Block, Document, Run, Table, grid, joint_at, printable, shown
from polyloop.formats.docx_styles import LIST_IDS, MAX_CONTINUED_DEPTH, MAX_LIST_DEPTH, XML, numbering, styles
from polyloop.formats.links import safe_link

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAMESPACES: Final = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
)
_OFFICE: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_TYPE: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml"
_EXTERNAL: Final = ' TargetMode="External"'
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_STYLE: Final = {"quote": "Quote", "code": "SourceCode", "formula": "Formula", "raw": "SourceCode"}
_DIVIDER: Final = '<w:p><w:pPr><w:pBdr><w:bottom w:val="single" w:sz="6" w:space="1" w:color="auto"/></w:pBdr></w:pPr></w:p>'
_PAGE: Final = (
    '<w:sectPr><w:pgSz w:w="11906" w:h="16838"/>'
    '<w:pgMar w:top="1440" w:right="1588" w:bottom="1440" w:left="1588" w:header="851" w:footer="992" w:gutter="0"/></w:sectPr>'
)
_TEXT_WIDTH: Final = 8730


def write_docx(document: Document) -> bytes:
    body = _Body()
    for block in document.blocks:
        body.add(block)
    parts = {
        "[Content_Types].xml": _content_types(),
        "_rels/.rels": _relations([("rId1", "officeDocument", "word/document.xml", False)]),
        "word/document.xml": f"{XML}<w:document {_NAMESPACES}><w:body>{''.join(body.out)}{_PAGE}</w:body></w:document>",
        "word/_rels/document.xml.rels": _relations([
            ("rId1", "styles", "styles.xml", False), ("rId2", "numbering", "numbering.xml", False),
            *((f"rId{number}", "hyperlink", target, True) for target, number in body.links.items()),
        ]),
        "word/styles.xml": styles(),
        "word/numbering.xml": numbering(body.restarts),
    }  # fmt: skip
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), text.encode("utf-8"), zipfile.ZIP_DEFLATED)
    return packed.getvalue()


class _Body:
    """Paragraphs written so far, the links they need, and the numbered lists begun."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self.links: dict[str, int] = {}
        self.restarts: list[tuple[int, int]] = []
        self.running: dict[int, tuple[int, int]] = {}
        self.parents: dict[int, str] = {}

    def add(self, block: Block) -> None:
        stays = block.depth if block.type in LIST_TYPES else block.depth - 1
        self.running = {depth: place for depth, place in self.running.items() if depth <= stays}
        self.parents[block.depth] = block.type
        if block.type == "divider":
            self.out.append(_DIVIDER)
        elif block.table is not None:
            self.out.append(self.table(block.table))
        elif block.type in LIST_TYPES and not (block.type == "numbered" and block.label):
            self.out.append(self.item(block))
        else:
            runs = shown(block)
            style = f"Heading{min(max(block.level, 1), 9)}" if block.type == "heading" else _STYLE.get(block.type, "")
            if not style and block.depth:
                style = "Quote" if self.parents.get(block.depth - 1) == "quote" else f"ListContinue{min(block.depth, MAX_CONTINUED_DEPTH)}"
            properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
            self.out.append(f"<w:p>{properties}{self.runs(runs)}</w:p>")

    def item(self, block: Block) -> str:
        depth = min(block.depth, MAX_LIST_DEPTH)
        list_id = LIST_IDS["done" if block.done else block.type] if block.type != "numbered" else self.numbered(block, depth)
        place = f'<w:numPr><w:ilvl w:val="{depth}"/><w:numId w:val="{list_id}"/></w:numPr>'
        return f"<w:p><w:pPr>{place}</w:pPr>{self.runs(shown(block))}</w:p>"

    def numbered(self, block: Block, depth: int) -> int:
        """Runs on in the list open at this depth when the number is the next one, else begins a list at that number."""
        list_id, last = self.running.get(depth, (0, 0))
        if not list_id or block.number != last + 1:
            self.restarts.append((depth, block.number))
            list_id = len(LIST_IDS) + len(self.restarts)
        self.running[depth] = (list_id, block.number)
        return list_id

    def table(self, table: Table) -> str:
        places = grid(table)
        columns = max((len(row) for row in places), default=0) or 1
        width = _TEXT_WIDTH // columns
        rows = [self.row(table, places, at, width) for at in range(len(places))]
        columns_xml = f'<w:gridCol w:w="{width}"/>' * columns
        properties = f'<w:tblPr><w:tblStyle w:val="TableGrid"/><w:tblW w:w="{width * columns}" w:type="dxa"/><w:tblLayout w:type="fixed"/></w:tblPr>'
        # Word wants a paragraph between tables and after the last one.
        return f"<w:tbl>{properties}<w:tblGrid>{columns_xml}</w:tblGrid>{''.join(rows)}</w:tbl><w:p/>"

    def row(self, table: Table, places: list[list[tuple[int, int] | None]], at: int, width: int) -> str:
        style = "TableHeading" if at < table.header_rows else "TableText"
        cells: list[str] = []
        column = 0
        while column < len(places[at]):
            place = places[at][column]
            span = 1
            while place is not None and column + span < len(places[at]) and places[at][column + span] == place:
                span += 1
            continued = place is not None and at > 0 and places[at - 1][column] == place
            cell = table.rows[place[0]][place[1]] if place is not None else None
            merge = "<w:vMerge/>" if continued else '<w:vMerge w:val="restart"/>' if cell is not None and cell.rowspan > 1 else ""
            wide = f'<w:gridSpan w:val="{span}"/>' if span > 1 else ""
            align = table.aligns[column] if column < len(table.aligns) else ""
            side = f'<w:jc w:val="{align}"/>' if align else ""
            text = "" if cell is None or continued else self.runs(cell.runs)
            cells.append(
                f'<w:tc><w:tcPr><w:tcW w:w="{width * span}" w:type="dxa"/>{wide}{merge}</w:tcPr>'
                f'<w:p><w:pPr><w:pStyle w:val="{style}"/>{side}</w:pPr>{text}</w:p></w:tc>'
            )
            column += span
        head = "<w:trPr><w:cantSplit/><w:tblHeader/></w:trPr>" if at < table.header_rows else ""
        return f"<w:tr>{head}{''.join(cells) or '<w:tc><w:p/></w:tc>'}</w:tr>"

    def runs(self, runs: Sequence[Run]) -> str:
        out: list[str] = []
        for at, run in enumerate(runs):
            text = run.text
            if run.wrap:
                text = joint_at(runs, at)
            target = safe_link(run.link)
            properties = "".join((
                '<w:rStyle w:val="VerbatimChar"/>' if run.code else '<w:rStyle w:val="Hyperlink"/>' if target else "",
                "<w:b/><w:bCs/>" if run.bold else "", "<w:i/><w:iCs/>" if run.italic else "", "<w:strike/>" if run.strike else "",
            ))  # fmt: skip
            xml = f"<w:r>{f'<w:rPr>{properties}</w:rPr>' if properties else ''}{_text(text)}</w:r>" if text else ""
            if target and xml:
                number = self.links.setdefault(target, len(self.links) + 3)
                xml = f'<w:hyperlink r:id="rId{number}">{xml}</w:hyperlink>'
            out.append(xml)
        return "".join(out)


def _text(text: str) -> str:
    pieces = re.split(r"([\n\t])", printable(text.replace("\r", "")))
    tags = {"\n": "<w:br/>", "\t": "<w:tab/>"}
    return "".join(tags.get(piece) or f'<w:t xml:space="preserve">{escape(piece)}</w:t>' for piece in pieces if piece)


def _relations(relations: list[tuple[str, str, str, bool]]) -> str:
    each = "".join(
        f'<Relationship Id="{rid}" Type="{_OFFICE}/{kind}" Target={quoteattr(target)}{_EXTERNAL if external else ""}/>'
        for rid, kind, target, external in relations
    )
    return f'{XML}<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{each}</Relationships>'


def _content_types() -> str:
    overrides = "".join(
        f'<Override PartName="/word/{name}.xml" ContentType="{_TYPE}.{kind}+xml"/>'
        for name, kind in (("document", "document.main"), ("styles", "styles"), ("numbering", "numbering"))
    )
    return (
        f'{XML}<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Default Extension="xml" ContentType="application/xml"/>{overrides}</Types>'
    )
