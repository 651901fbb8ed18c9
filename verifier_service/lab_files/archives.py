"""What is inside of a workbook, held against limits before any parser sees it.

A workbook is a zip archive of XML and untrusted. Its directory is looked at first: ``zipfile`` never reads
more of an entry than the directory announces and compares its CRC-32, so an entry that lies about its size
is a broken one. Then every part that may be parsed is read and checked, and put into a new archive: what
was not checked is not there, whatever relationships and content types say of it.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from xml.etree import ElementTree

from verifier_service.domain.errors import InvalidInput, LimitExceeded

MAX_ENTRIES = 1_000
MAX_UNPACKED_BYTES = 32 * 1024 * 1024
MAX_PART_BYTES = 4 * 1024 * 1024  # of one part that is neither a sheet nor the texts that sheets share
MAX_TAGS = 1_000_000  # read in some five seconds
MAX_TAGS_ELSEWHERE = 60_000  # which cost ten times as much to read
MAX_RATIO = 200  # sheets of numbers are packed about 10 to 1
SMALL_BYTES = 64 * 1024  # for which no ratio is harmful
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError)

# Where every program keeps them. Pictures, charts, pivots and what else there is are left out unread.
_PARSED = re.compile(
    r"\[Content_Types\]\.xml|_rels/\.rels|docProps/[^/]+\.xml|xl/(?!calcChain\.)[^/]+\.xml|xl/_rels/[^/]+\.rels"
    r"|xl/worksheets/[^/]+\.xml|xl/worksheets/_rels/[^/]+\.rels|xl/theme/[^/]+\.xml",
    re.IGNORECASE,
)
_SHEETS = re.compile(r"xl/(?:worksheets/[^/]+|sharedStrings[^/]*)\.xml", re.IGNORECASE)
_NEEDED = ("officeDocument", "worksheet", "sharedStrings", "styles", "theme")  # kinds of relationships
_ENCODINGS = ("utf-8", "utf8", "us-ascii", "ascii")
_DECLARATION = re.compile(rb"<\?xml\b[^>]*\?>")
_DECLARED = re.compile(rb"encoding\s*=\s*[\"']([^\"']*)[\"']")
_BOM = b"\xef\xbb\xbf"


def checked(raw: bytes) -> bytes:
    """An archive of the parts that were checked. Raises ``InvalidInput`` with ``bad_workbook``, and
    ``LimitExceeded``."""
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            entries = archive.infolist()
            _check_directory(entries)
            wanted = [one for one in entries if _PARSED.fullmatch(one.filename)]
            if len({one.filename.casefold() for one in wanted}) < len(wanted):
                raise _bad("the workbook has two parts of one name")
            parts = {one.filename: archive.read(one) for one in wanted}
    except _BROKEN as error:
        raise _bad("this is no XLSX workbook") from error
    for part in parts.values():
        _check_text(part)
    _check_tags(parts)
    for name, part in parts.items():
        _check_places(name, part)
    return _packed(parts)


def require(found: int, most: int, code: str, what: str) -> None:
    """Raise ``LimitExceeded`` beyond a limit."""
    if found > most:
        raise LimitExceeded(code, f"more than {most} {what}", limit=most, field="file.content")


def _bad(message: str) -> InvalidInput:
    return InvalidInput("bad_workbook", message, field="file.content")


def _check_directory(entries: list[zipfile.ZipInfo]) -> None:
    require(len(entries), MAX_ENTRIES, "too_many_entries", "entries")
    unpacked = sum(one.file_size for one in entries)
    require(unpacked, MAX_UNPACKED_BYTES, "unpacks_too_large", "bytes unpacked")
    for one in entries:
        if one.file_size > max(SMALL_BYTES, MAX_RATIO * one.compress_size):
            require(MAX_RATIO + 1, MAX_RATIO, "packed_too_tight", "times its packed size")
        if _PARSED.fullmatch(one.filename) and not _SHEETS.fullmatch(one.filename):
            require(one.file_size, MAX_PART_BYTES, "unpacks_too_large", "bytes in one part")


def _check_text(part: bytes) -> None:
    """UTF-8 and nothing else: in another encoding a parser would see what is not seen here. No document
    type, without which there are no entities; workbooks have none."""
    text = part.removeprefix(_BOM)
    declaration = _DECLARATION.match(text)
    if text.startswith(b"<?xml") and declaration is None:
        raise _bad("a part of the workbook is no XML")
    if declaration is not None and b"encoding" in declaration[0]:
        named = _DECLARED.search(declaration[0])
        if named is None or named[1].decode("latin-1").strip().casefold() not in _ENCODINGS:
            raise _bad("a part of the workbook is not UTF-8")
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _bad("a part of the workbook is not UTF-8") from error
    if b"\x00" in text:
        raise _bad("a part of the workbook is not UTF-8")
    if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
        raise _bad("the workbook declares entities")


def _check_tags(parts: dict[str, bytes]) -> None:
    """Count tags before a parser makes objects of them. A cell has four."""
    in_sheets = sum(part.count(b"<") for name, part in parts.items() if _SHEETS.fullmatch(name))
    elsewhere = sum(part.count(b"<") for name, part in parts.items() if not _SHEETS.fullmatch(name))
    require(in_sheets, MAX_TAGS, "too_much_markup", "tags in sheets")
    require(elsewhere, MAX_TAGS_ELSEWHERE, "too_much_markup", "tags in styles and the rest")


def _check_places(name: str, part: bytes) -> None:
    """Refuse relationships that lead to a sheet, or what else is parsed, where it was not looked for: left
    out, another sheet would be taken for the first."""
    if not name.casefold().endswith(".rels"):
        return
    try:
        found = list(ElementTree.fromstring(part))  # noqa: S314 - it has no document type
    except ElementTree.ParseError as error:
        raise _bad("the workbook cannot be read") from error
    folder = posixpath.dirname(posixpath.dirname(name))
    for one in found:
        if one.get("Type", "").rpartition("/")[2] not in _NEEDED:
            continue
        target = one.get("Target", "")
        place = target.lstrip("/") if target.startswith("/") else posixpath.join(folder, target)
        if one.get("TargetMode") == "External" or not _PARSED.fullmatch(posixpath.normpath(place)):
            raise _bad("a part of the workbook is not where workbooks keep it")


def _packed(parts: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return made.getvalue()
