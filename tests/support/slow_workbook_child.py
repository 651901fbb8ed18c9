"""The process that reads for ``slow_workbooks``."""

from __future__ import annotations

from tests.support import slow_workbooks
from verifier_service.lab_files import workbook_child

workbook_child.xlsx_sheet = slow_workbooks.read

if __name__ == "__main__":
    workbook_child.main()
