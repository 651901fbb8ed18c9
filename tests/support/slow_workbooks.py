"""A server whose workbooks may take for ever or all memory: two files do, all others are read as usual.

No workbook is known that passes the checks and does so by itself. ``python -m`` this module runs the
server; the process that reads is ``CHILD``.
"""

from __future__ import annotations

import sys
import time

from verifier_service.domain.lab_sheets import Sheet
from verifier_service.lab_files import workbook_reader, workbooks

CHILD = "tests.support.slow_workbook_child"
ENDLESS, GREEDY = b"endless", b"greedy"
STEP = 1 << 26
_read = workbooks.xlsx_sheet


def read(raw: bytes) -> Sheet:
    """As ``workbooks.xlsx_sheet`` does, but for those two."""
    if raw == ENDLESS:
        while True:
            time.sleep(60)
    if raw == GREEDY:
        held = []
        while True:
            held.append(bytearray(STEP))
    return _read(raw)


def main() -> int:
    """Serve with the settings of the environment."""
    from verifier_service import app

    workbook_reader.CHILD, workbook_reader.DEADLINE_S = CHILD, 4.0
    return app.main()


if __name__ == "__main__":
    sys.exit(main())
