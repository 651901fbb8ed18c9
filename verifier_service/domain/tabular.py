"""CSV for spreadsheets: what people wrote is never run, and reads back as it was.

A spreadsheet may take another separator than the one that a file has, or break lines within quotes; each
part of a cell between separators may then be a cell of its own. Wherever such a part begins with the sign
of a formula, or with what looks like one, an apostrophe is put before it. The same is done where there are
apostrophes before the sign already, so that taking away exactly one gives the text back, whatever it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# What spreadsheets run (OWASP, "CSV Injection"), also full-width and small forms, which some convert.
_SIGNS = "=+\\-@＝＋－＠﹦﹢﹣﹫"
_SEPARATORS = ",;\\t\\r\\n"
# What a reader may skip before a sign: quotes, spaces, controls, what has no width. Apostrophes are ours.
_SKIPPED = (
    "\"'\\x00-\\x08\\x0b\\x0c\\x0e-\\x20\\x7f-\\xa0\\xad\\u1680\\u2000-\\u200f\\u2028-\\u202f"
    "\\u205f-\\u2064\\u3000\\ufeff"
)
_RUN = f"(?=[{_SKIPPED}]*[{_SIGNS}])"
_SPLIT = "(?='*[\\t\\r\\n])"  # a cell that begins with one of these is split off at once
_PART = f"(?:\\A|(?<=[{_SEPARATORS}]))"
_OPEN = re.compile(f"\\A{_SPLIT}|{_PART}{_RUN}")
_GUARD = re.compile(f"\\A'{_SPLIT}|{_PART}'{_RUN}")
_PLAIN = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", re.ASCII)


def guarded(text: str) -> str:
    """A cell of which no spreadsheet takes any part for a formula; plain numbers are left as they are."""
    return text if _PLAIN.fullmatch(text) else _OPEN.sub("'", text)


def unguarded(text: str) -> str:
    """What was guarded: ``unguarded(guarded(text))`` is ``text``, for all texts."""
    return text if _PLAIN.fullmatch(text) else _GUARD.sub("", text)


def csv_text(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """RFC 4180 text with every cell guarded, and quoted unless it is empty or a plain number."""
    lines = [",".join(header)]
    lines += [",".join(map(_cell, row)) for row in rows]
    return "".join(f"{line}\r\n" for line in lines)


def _cell(text: str) -> str:
    if not text or _PLAIN.fullmatch(text):
        return text
    return '"' + guarded(text).replace('"', '""') + '"'
