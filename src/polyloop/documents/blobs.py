"""The bytes of media, kept once a tenant under their digest, and what kind they really are.

The kind is read from the bytes and from nothing else: a name that claims another one is refused. What is kept is read again and
compared before anybody is told that it is there. Seed: S0.20, S0.23.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable
from typing import Any, Final

from ..contract.problem import ProblemError, problem
from ..db import Tx
from .store import OPEN

_SIGNS: Final[tuple[tuple[int, bytes, str], ...]] = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"), (0, b"\xff\xd8\xff", "image/jpeg"), (0, b"GIF87a", "image/gif"), (0, b"GIF89a", "image/gif"),
    (8, b"WEBP", "image/webp"), (0, b"BM", "image/bmp"), (0, b"II*\0", "image/tiff"), (0, b"MM\0*", "image/tiff"), (0, b"%PDF-", "application/pdf"),
    (0, b"PK\x03\x04", "application/zip"), (0, b"\x1f\x8b", "application/gzip"), (4, b"ftyp", "video/mp4"), (0, b"ID3", "audio/mpeg"),
    (8, b"WAVE", "audio/wav"), (0, b"OggS", "audio/ogg"), (0, b"fLaC", "audio/flac"),
)  # fmt: skip
#: Signs of a few letters also begin texts: what must stand beside them.
_BESIDE: Final[dict[str, tuple[bytes, int]]] = {
    "image/webp": (b"RIFF", 0), "audio/wav": (b"RIFF", 0), "image/bmp": (bytes(4), 6), "video/mp4": (b"\0", 0), "audio/mpeg": (b"\0", 4),
}  # fmt: skip
#: What a name's ending claims, where bytes can tell. Office files are zip files inside.
_CLAIMS: Final = {
    "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp", "bmp": "image/bmp",
    "tif": "image/tiff", "tiff": "image/tiff", "pdf": "application/pdf", "zip": "application/zip", "docx": "application/zip",
    "xlsx": "application/zip", "pptx": "application/zip", "gz": "application/gzip", "mp4": "video/mp4", "wav": "audio/wav", "ogg": "audio/ogg",
    "flac": "audio/flac",
}  # fmt: skip
#: Pictures a reader can show.
SHOWN: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
PREVIEW_PIXELS: Final = 512
MAX_PIXELS: Final = 80_000_000


def kind_of(name: str, data: bytes) -> str:
    """The media type of bytes. Raises type_mismatch when the name claims another, validation for no bytes."""
    if not data:
        raise problem("validation", f"{name} is empty", stage="read", details={"field": "file", "issue": "empty"})
    found = next((kind for at, sign, kind in _SIGNS if data[at : at + len(sign)] == sign and data.startswith(*_BESIDE.get(kind, (b"", 0)))), "")
    claimed = _CLAIMS.get(name.rpartition(".")[2].lower(), "") if "." in name else ""
    if claimed and claimed != found:
        raise problem("type_mismatch", f"the content of {name} is not {claimed}", stage="read", details={"name": name, "found": found or None})
    if found:
        return found
    try:
        data.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "text/plain"


def keep(tx: Tx, tenant: str, data: bytes) -> None:
    """Raises corrupt_store when what was kept reads back differently."""
    digest = hashlib.sha256(data).hexdigest()
    tx.run("insert into doc_blob (tenant, sha256, data) values (?, ?, ?) on conflict (tenant, sha256) do nothing", tenant, digest, data)
    if not whole(tx, tenant, digest):
        raise problem("corrupt_store", "what was kept reads back differently", stage="write")


def whole(tx: Tx, tenant: str, sha256: str) -> bool:
    """Whether the bytes of this digest are there, and are these."""
    row = tx.row("select data from doc_blob where tenant = ? and sha256 = ?", tenant, sha256)
    return row is not None and hashlib.sha256(row[0]).hexdigest() == sha256


def get(tx: Tx, tenant: str, sha256: str) -> bytes:
    """Raises corrupt_store."""
    row = tx.row("select data from doc_blob where tenant = ? and sha256 = ?", tenant, sha256)
    if row is None or hashlib.sha256(row[0]).hexdigest() != sha256:
        raise problem("corrupt_store", "the bytes of this media are gone or damaged", stage="read", details={"sha256": sha256})
    return bytes(row[0])


def sweep(tx: Tx, tenant: str, digests: Iterable[str]) -> None:
    """Of these bytes, those that hang on no node any more go."""
    for digest in digests:
        used = "select 1 from doc_item where tenant = ? and kind = 'media' and mark = ? and until_seq = ? limit 1"
        if tx.row(used, tenant, digest, OPEN) is None:
            tx.run("delete from doc_blob where tenant = ? and sha256 = ?", tenant, digest)


def _check_pixels(pixels: int) -> None:
    if pixels > MAX_PIXELS:
        raise problem("validation", f"a picture of more than {MAX_PIXELS} pixels is not decoded", stage="read")


def preview(data: bytes) -> bytes:
    """A small PNG of a picture. Raises type_mismatch for what is none, capability_unavailable without the library."""
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise problem("capability_unavailable", "previews need the extra: polyloop[media]", stage="read") from error
    if kind_of("", data) not in SHOWN:
        raise problem("type_mismatch", "this media is no picture that can be shown", stage="read")
    out = io.BytesIO()
    try:
        with Image.open(io.BytesIO(data)) as picture:
            _check_pixels(picture.width * picture.height)
            small: Any = ImageOps.exif_transpose(picture)
            small.thumbnail((PREVIEW_PIXELS, PREVIEW_PIXELS))
            (small if small.mode in ("RGB", "RGBA", "L", "LA") else small.convert("RGBA")).save(out, "PNG")
    except Image.DecompressionBombError:
        _check_pixels(MAX_PIXELS + 1)
    except ProblemError:
        raise
    except Exception as error:  # the decoders raise what they like for bytes that are no picture: EOFError, struct.error, IndexError, ...
        raise problem("type_mismatch", f"the picture cannot be decoded: {error}", stage="read") from error
    return out.getvalue()
