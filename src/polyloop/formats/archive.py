"""Unpacks an office archive under limits that count the bytes which really come out."""

from __future__ import annotations

import io
import re
import stat
import zipfile
import zlib
from typing import Final

from polyloop.formats.limits import MAX_ARCHIVE_ENTRIES, MAX_UNPACK_RATIO, MAX_UNPACKED_BYTES, UNPACK_RATIO_FROM_BYTES
from polyloop.formats.problems import unreadable

_PIECE_BYTES: Final = 256 * 1024
#: Parts that hold programs.
_MACROS: Final = ("vbaproject.bin", "vbadata.xml")
#: Whatever they are called, the types of the package and its relations say what they are; and so does the folder of macro sheets.
_MACRO_TYPES: Final = re.compile(rb"""Type\s*=\s*["'][^"'<>]*(?:vbaProject|macroEnabled|macrosheet|wordVbaData)""", re.IGNORECASE)
_TYPES: Final = "[content_types].xml"
#: The two ways an office file may pack its parts. Of others the library gives out what one piece unpacks to, whatever its size.
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def unpack(name: str, data: bytes, wanted: tuple[str, ...]) -> dict[str, bytes]:
    """The members whose names end so. Every member is unpacked and checked, so that a damaged or swollen file is refused whole.

    Raises `corrupt` (also for names that lead out, come twice or are links, and for other packings), `encrypted`, `macros` (programs
    inside it), `archive_too_large`.
    """
    kept: dict[str, bytes] = {}
    seen: set[str] = set()
    total = 0
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if len(entries) > MAX_ARCHIVE_ENTRIES:
                raise unreadable(name, "archive_too_large", f"it has {len(entries)} entries; the limit is {MAX_ARCHIVE_ENTRIES}")
            for entry in entries:
                if entry.flag_bits & 1:
                    raise unreadable(name, "encrypted", "it is protected by a password")
                _check_name(name, entry, seen)
                pieces: list[bytes] = []
                with archive.open(entry) as member:
                    while piece := member.read(_PIECE_BYTES):
                        total += len(piece)
                        _check_size(name, total, len(data))
                        if entry.filename.endswith(wanted):
                            pieces.append(piece)
                if pieces:
                    kept[entry.filename] = b"".join(pieces)
                    _check_types(name, entry.filename, kept[entry.filename])
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, ValueError) as error:
        raise unreadable(name, "corrupt", f"it is not a whole archive ({error})") from error
    return kept


def _check_size(name: str, unpacked_bytes: int, packed_bytes: int) -> None:
    if unpacked_bytes > MAX_UNPACKED_BYTES:
        raise unreadable(name, "archive_too_large", f"it unpacks to more than {MAX_UNPACKED_BYTES} bytes")
    if unpacked_bytes > UNPACK_RATIO_FROM_BYTES and unpacked_bytes > MAX_UNPACK_RATIO * packed_bytes:
        raise unreadable(name, "archive_too_large", f"it unpacks to more than {MAX_UNPACK_RATIO} times its size")


def _check_name(name: str, entry: zipfile.ZipInfo, seen: set[str]) -> None:
    """One name, one part, below the package: of two by the same name each program reads another one."""
    path = entry.filename.replace("\\", "/").lower()
    if path in seen:
        raise unreadable(name, "corrupt", f"its part {entry.filename[:100]!r} is there twice")
    seen.add(path)
    if path.startswith("/") or ".." in path.split("/") or stat.S_ISLNK(entry.external_attr >> 16):
        raise unreadable(name, "corrupt", f"its part {entry.filename[:100]!r} leads out of it")
    if entry.compress_type not in _METHODS:
        raise unreadable(name, "corrupt", f"its part {entry.filename[:100]!r} is packed in a way that office files are not")
    if path.endswith(_MACROS) or "/macrosheets/" in path:
        raise unreadable(name, "macros", "there are macros in it")


def _check_types(name: str, path: str, part: bytes) -> None:
    if (path.lower() == _TYPES or path.endswith(".rels")) and _MACRO_TYPES.search(part.replace(b"\0", b"")):
        raise unreadable(name, "macros", "there are macros in it")
