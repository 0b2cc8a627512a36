"""Word files built by hand, for what no writer of ours or theirs makes."""

# ruff: noqa: E501 - a row of a table is a line
from __future__ import annotations

import io
import zipfile

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_NAMESPACES = (
    f'xmlns:w="{W}" xmlns:r="{_RELATIONS}" xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" xmlns:v="urn:schemas-microsoft-com:vml" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"'
)


def archive(parts: dict[str, str | bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in parts.items():
            out.writestr(name, content)
    return packed.getvalue()


def word(body: str, relations: dict[str, tuple[str, str]] | None = None, **parts: str) -> bytes:
    """A file with this body. `parts`: root element content by part (styles, numbering, footnotes, header1, comments).

    `relations`: further ones of the document, id -> (kind, target); targets with a scheme are external.
    """
    listed = {f"rId{name}": (name.rstrip("0123456789"), f"{name}.xml") for name in parts} | (relations or {})
    rows = "".join(
        f'<Relationship Id="{rid}" Type="{_RELATIONS}/{kind}" Target="{target}"{" TargetMode=" + chr(34) + "External" + chr(34) if ":" in target else ""}/>'
        for rid, (kind, target) in listed.items()
    )
    rels = "http://schemas.openxmlformats.org/package/2006/relationships"
    files: dict[str, str | bytes] = {
        "_rels/.rels": f'<Relationships xmlns="{rels}"><Relationship Id="r" Type="{_RELATIONS}/officeDocument" Target="word/document.xml"/></Relationships>',
        "word/_rels/document.xml.rels": f'<Relationships xmlns="{rels}">{rows}</Relationships>',
        "word/document.xml": f"<w:document {_NAMESPACES}><w:body>{body}</w:body></w:document>",
    }
    files |= {
        f"word/{name}.xml": f"<w:{name.rstrip('0123456789')} {_NAMESPACES}>{content}</w:{name.rstrip('0123456789')}>"
        for name, content in parts.items()
    }
    return archive(files)


def p(*runs: str, properties: str = "") -> str:
    """A paragraph of runs; a run that is no markup is text."""
    inner = "".join(run if run.startswith("<") else r(run) for run in runs)
    return f"<w:p>{f'<w:pPr>{properties}</w:pPr>' if properties else ''}{inner}</w:p>"


def r(text: str, properties: str = "") -> str:
    return f'<w:r>{f"<w:rPr>{properties}</w:rPr>" if properties else ""}<w:t xml:space="preserve">{text}</w:t></w:r>'
