"""Files to a block tree and back: `read`, `write`, `losses`.

No storage and no paths: bytes in, bytes out. What a format says that the tree cannot is named in `Document.losses`; what the tree says
that a format cannot, in `losses(document, format)`. The libraries of a format are loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal

from polyloop.contract.problem import FieldProblem, bad_arguments
from polyloop.formats.limits import MAX_CHARACTERS, MAX_FILE_BYTES
from polyloop.formats.problems import unreadable

if TYPE_CHECKING:
    from polyloop.formats.blocks import Document, Loss

Target = Literal["md", "html", "docx", "pdf"]
_FORMATS: Final = {
    "md": "md", "markdown": "md", "txt": "txt", "text": "txt", "docx": "docx", "pdf": "pdf", "html": "html", "htm": "html",
    "csv": "csv", "tsv": "csv", "xlsx": "xlsx",
}  # fmt: skip
_MAGIC: Final = {"docx": (b"PK\x03\x04", b"\xd0\xcf\x11\xe0"), "xlsx": (b"PK\x03\x04", b"\xd0\xcf\x11\xe0"), "pdf": (b"%PDF-",)}
_MAGIC_WITHIN_BYTES: Final = 1024


#: Endings of what is not read here, and is no text either.
_OTHERS: Final = frozenset({
    "doc", "xls", "ppt", "pptx", "odt", "ods", "rtf", "epub", "zip", "gz", "png", "jpg", "jpeg", "gif", "webp", "bmp", "tif", "tiff", "svg",
    "mp4", "mp3", "wav", "ogg", "flac", "json", "xml", "exe", "bat", "cmd", "sh", "js", "py",
})  # fmt: skip


def check_ending(output: str, target: Target) -> None:
    """Raises validation for a name that says the file is of another format: whoever opens it would be told that it is damaged."""
    ending = output.rpartition("/")[2].rpartition(".")[2].lower() if "." in output.rpartition("/")[2] else ""
    told = ending if ending in _OTHERS else _FORMATS.get(ending, target)
    if told != target and (told, target) != ("txt", "md"):
        raise bad_arguments([FieldProblem("output", "other_format", f"the name ends in .{ending}, the file would be {target}")])


def kind_of(name: str, data: bytes) -> str:
    """The format of a file by its ending, once its size and first bytes do not speak against it. Raises as `read`."""
    kind = _FORMATS.get(name.rpartition(".")[2].lower()) if "." in name else None
    if kind is None:
        raise unreadable(name, "unknown_format", "its format is not known; md, txt, html, docx, pdf, csv and xlsx are read")
    if not data:
        raise unreadable(name, "empty", "it is empty")
    if len(data) > MAX_FILE_BYTES:
        raise unreadable(name, "too_large", f"it has {len(data)} bytes; the limit is {MAX_FILE_BYTES}")
    if kind in _MAGIC and not any(magic in data[:_MAGIC_WITHIN_BYTES] for magic in _MAGIC[kind]):
        raise unreadable(name, "corrupt", f"its content is not {kind}")
    return kind


def read(name: str, data: bytes) -> Document:
    """The document in a file; its format follows from the name's ending (md, markdown, txt, text, html, htm, docx, pdf, csv, tsv, xlsx).

    Raises ProblemError naming the file: type_mismatch (unknown ending, damaged, undecodable), validation (empty, too large, encrypted,
    without text), capability_unavailable (library missing); `details.reason` says which.
    """
    kind = kind_of(name, data)
    document = _read(kind, name, data)
    if sum(len(block.text) for block in document.blocks) > MAX_CHARACTERS:
        raise unreadable(name, "too_many_characters", f"it has more than {MAX_CHARACTERS} characters")
    if not any(block.text.strip() or block.type == "image" for block in document.blocks):
        raise unreadable(name, "empty", "it holds no text")
    return document


#: Where the reader of each format is found.
_READERS: Final = {
    "md": "markdown_in:read_markdown", "txt": "text_in:read_text", "docx": "docx_in:read_docx", "html": "html_in:read_html", "csv": "csv_in:read_csv",
    "xlsx": "xlsx_in:read_xlsx", "pdf": "pdf_in:read_pdf",
}  # fmt: skip


def _read(kind: str, name: str, data: bytes) -> Document:
    module, _, reader = _READERS[kind].partition(":")
    return getattr(import_module(f"polyloop.formats.{module}"), reader)(name, data)


_WRITERS: Final = {
    "md": "markdown_out:write_markdown", "html": "html_out:write_html", "docx": "docx_out:write_docx", "pdf": "pdf_out:write_pdf",
}  # fmt: skip


def write(document: Document, target: Target) -> bytes:
    """The document as a file. Markdown that was read and not edited comes back byte for byte.

    Raises capability_unavailable, validation for characters that a PDF could not show.
    """
    module, _, writer = _WRITERS[target].partition(":")
    return getattr(import_module(f"polyloop.formats.{module}"), writer)(document)


def writable(document: Document, target: Target) -> None:
    """Raises validation, before anything is written, for what a format could not show at all."""
    if target == "pdf":
        from polyloop.formats.pdf_out import check_characters

        check_characters(document)


def same_text(document: Document, target: Target, data: bytes) -> None:
    """Re-open what `write(document, target)` gave and compare its text with the tree's. Raises task_failed where they differ."""
    from polyloop.formats.check import compare, pieces, told

    if target == "pdf":
        from polyloop.formats.pdf_out import same_pdf_text

        same_pdf_text(document, data)
        return
    found = _read(target, f"file.{target}", data)
    raw = any(block.type == "raw" for block in document.blocks)
    compare(pieces(document, target), "".join(told(block, target) for block in found.blocks), whole=not raw)


def losses(document: Document, target: Target) -> tuple[Loss, ...]:
    """What `write(document, target)` would not carry over."""
    from polyloop.formats.loss import losses_of

    return losses_of(document, target)
