"""The fixed parts of a Word file that we write: styles with Chinese fonts named, list definitions, settings."""

from __future__ import annotations

from typing import Final

_W: Final = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
XML: Final = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
MAX_LIST_DEPTH: Final = 8
#: Styles of paragraphs that continue an item, one for each depth.
MAX_CONTINUED_DEPTH: Final = 5

#: Lists by kind: (numFmt, text of the mark). A todo's box is its mark.
LIST_IDS: Final = {"bulleted": 1, "todo": 2, "done": 3, "numbered": 4}
_MARKS: Final = {"bulleted": ("bullet", "•"), "todo": ("bullet", "\u2610"), "done": ("bullet", "\u2611"), "numbered": ("decimal", "%{n}.")}

_TIGHT: Final = '<w:spacing w:before="20" w:after="20" w:line="240" w:lineRule="auto"/>'
#: id, name, properties of the paragraph, properties of the run.
_PARAGRAPH_STYLES: Final = (
    ("Quote", "Quote", '<w:spacing w:before="60" w:after="60"/><w:ind w:left="480"/>', '<w:i/><w:iCs/><w:color w:val="444444"/>'),
    ("SourceCode", "Source Code", '<w:shd w:val="clear" w:color="auto" w:fill="F4F4F4"/><w:spacing w:line="240" w:lineRule="auto"/>', "{mono}"),
    ("Formula", "Formula", '<w:jc w:val="center"/>', "{mono}"),
    *(
        (f"ListContinue{step}", "List Continue" + (f" {step}" if step > 1 else ""), f'<w:ind w:left="{480 * step}"/>', "")
        for step in range(1, MAX_CONTINUED_DEPTH + 1)
    ),
    ("TableText", "Table Text", _TIGHT, '<w:sz w:val="21"/><w:szCs w:val="21"/>'),
    ("TableHeading", "Table Heading", _TIGHT, '<w:b/><w:bCs/><w:sz w:val="21"/><w:szCs w:val="21"/>'),
)
_HEADING_SIZES: Final = (36, 32, 28, 26, 24, 24, 24, 24, 24)


def styles() -> str:
    fonts = '<w:rFonts w:ascii="Times New Roman" w:hAnsi="Times New Roman" w:eastAsia="SimSun" w:cs="Times New Roman"/>'
    heads = '<w:rFonts w:ascii="Arial" w:hAnsi="Arial" w:eastAsia="SimHei" w:cs="Arial"/>'
    mono = '<w:rFonts w:ascii="Courier New" w:hAnsi="Courier New" w:eastAsia="SimSun" w:cs="Courier New"/>'
    cell_margins = "".join(f'<w:{side} w:w="{width}" w:type="dxa"/>' for side, width in (("top", 0), ("left", 108), ("bottom", 0), ("right", 108)))
    sides = ("top", "left", "bottom", "right", "insideH", "insideV")
    borders = "".join(f'<w:{side} w:val="single" w:sz="4" w:space="0" w:color="auto"/>' for side in sides)
    out = [XML]
    out.append(
        f'<w:styles {_W}><w:docDefaults><w:rPrDefault><w:rPr>{fonts}<w:sz w:val="24"/><w:szCs w:val="24"/>'
        '<w:lang w:val="en-US" w:eastAsia="zh-CN" w:bidi="ar-SA"/></w:rPr></w:rPrDefault>'
        '<w:pPrDefault><w:pPr><w:spacing w:after="120" w:line="360" w:lineRule="auto"/></w:pPr></w:pPrDefault></w:docDefaults>'
        '<w:style w:type="paragraph" w:default="1" w:styleId="Normal"><w:name w:val="Normal"/><w:qFormat/></w:style>'
        '<w:style w:type="character" w:default="1" w:styleId="DefaultParagraphFont"><w:name w:val="Default Paragraph Font"/></w:style>'
        '<w:style w:type="table" w:default="1" w:styleId="TableNormal"><w:name w:val="Normal Table"/>'
        f'<w:tblPr><w:tblInd w:w="0" w:type="dxa"/><w:tblCellMar>{cell_margins}</w:tblCellMar></w:tblPr></w:style>'
        '<w:style w:type="table" w:styleId="TableGrid"><w:name w:val="Table Grid"/><w:basedOn w:val="TableNormal"/>'
        f"<w:tblPr><w:tblBorders>{borders}</w:tblBorders></w:tblPr></w:style>"
    )
    out += [
        f'<w:style w:type="paragraph" w:styleId="Heading{level}"><w:name w:val="heading {level}"/><w:basedOn w:val="Normal"/><w:next w:val="Normal"/>'
        f'<w:qFormat/><w:pPr><w:keepNext/><w:spacing w:before="240" w:after="120"/><w:outlineLvl w:val="{level - 1}"/></w:pPr>'
        f'<w:rPr>{heads}<w:b/><w:bCs/><w:sz w:val="{size}"/><w:szCs w:val="{size}"/></w:rPr></w:style>'
        for level, size in enumerate(_HEADING_SIZES, 1)
    ]
    out += [
        f'<w:style w:type="paragraph" w:styleId="{style_id}"><w:name w:val="{name}"/><w:basedOn w:val="Normal"/>'
        f"<w:pPr>{paragraph}</w:pPr><w:rPr>{run.format(mono=mono)}</w:rPr></w:style>"
        for style_id, name, paragraph, run in _PARAGRAPH_STYLES
    ]
    out.append(
        f'<w:style w:type="character" w:styleId="VerbatimChar"><w:name w:val="Verbatim Char"/><w:rPr>{mono}</w:rPr></w:style>'
        '<w:style w:type="character" w:styleId="Hyperlink"><w:name w:val="Hyperlink"/>'
        '<w:rPr><w:color w:val="0563C1"/><w:u w:val="single"/></w:rPr></w:style>'
        "</w:styles>"
    )
    return "".join(out)


def numbering(restarts: list[tuple[int, int]]) -> str:
    """The four kinds of list, then one list per numbered run: `restarts` holds (depth, first number) for ids from 5 on."""
    out = [f"{XML}<w:numbering {_W}>"]
    for kind, (form, mark) in _MARKS.items():
        levels = "".join(
            f'<w:lvl w:ilvl="{depth}"><w:start w:val="1"/><w:numFmt w:val="{form}"/><w:lvlText w:val="{mark.replace("{n}", str(depth + 1))}"/>'
            f'<w:lvlJc w:val="left"/><w:pPr><w:ind w:left="{480 * (depth + 1)}" w:hanging="480"/></w:pPr></w:lvl>'
            for depth in range(MAX_LIST_DEPTH + 1)
        )
        out.append(f'<w:abstractNum w:abstractNumId="{LIST_IDS[kind]}"><w:multiLevelType w:val="hybridMultilevel"/>{levels}</w:abstractNum>')
    out += [f'<w:num w:numId="{number}"><w:abstractNumId w:val="{number}"/></w:num>' for number in LIST_IDS.values()]
    out += [
        f'<w:num w:numId="{number}"><w:abstractNumId w:val="{LIST_IDS["numbered"]}"/>'
        f'<w:lvlOverride w:ilvl="{depth}"><w:startOverride w:val="{first}"/></w:lvlOverride></w:num>'
        for number, (depth, first) in enumerate(restarts, len(LIST_IDS) + 1)
    ]
    return "".join(out) + "</w:numbering>"
