"""Reads one workbook: a process that its parent may kill at any time.

The workbook comes on standard input; one document of JSON goes to standard output, either ``{"header",
"rows"}`` or ``{"code", "message", "field", "limit"}``. It may take so much memory and time, and write no
files.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.lab_sheets import BadCell, Cell
from verifier_service.lab_files.workbooks import xlsx_sheet

MEMORY = 1 << 30  # address space in bytes
CPU_S = 30
TOO_MUCH_MEMORY = "too_much_memory"


def main() -> None:
    """Read, answer, end."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    out = sys.stdout.buffer
    sys.stdout = sys.stderr
    out.write(json.dumps(_answer(sys.stdin.buffer.read()), ensure_ascii=False).encode("utf-8", "replace"))
    out.flush()


def _answer(raw: bytes) -> dict[str, Any]:
    try:
        sheet = xlsx_sheet(raw)
        rows = [[row.line, [_plain(cell) for cell in row.cells]] for row in sheet.rows]
        return {"header": sheet.header, "rows": rows}
    except InvalidInput as error:
        limit = getattr(error, "limit", None)
        return {"code": error.code, "message": error.message, "field": error.field, "limit": limit}
    except MemoryError:
        message = f"reading it takes more than {MEMORY >> 20} MiB"
        return {"code": TOO_MUCH_MEMORY, "message": message, "field": "file.content", "limit": MEMORY}


def _plain(cell: Cell) -> Any:
    return list(cell) if isinstance(cell, BadCell) else cell


if __name__ == "__main__":
    main()
