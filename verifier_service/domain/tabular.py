"""CSV for spreadsheets: what people wrote is never run."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

# What spreadsheets run or split (OWASP, "CSV Injection"); plain numbers are left as they are.
_RUN = ("=", "+", "-", "@", "\t", "\r")
_PLAIN = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", re.ASCII)


def guarded(text: str) -> str:
    """A cell that no spreadsheet takes for a formula; reading it back takes the apostrophe away."""
    return f"'{text}" if text.startswith(_RUN) and not _PLAIN.fullmatch(text) else text


def csv_text(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """RFC 4180 text with every cell guarded."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows([guarded(cell) for cell in row] for row in rows)
    return text.getvalue()
