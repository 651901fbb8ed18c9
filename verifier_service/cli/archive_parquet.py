"""The files of an archive as Parquet: columns as in ``domain.archive``, documents as JSON text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

from verifier_service.cli.archive_files import NAMES
from verifier_service.domain.archive import COLUMNS, FORMAT, VERSION, ColumnType

ROWS = 5_000
BYTES = 16_000_000
TYPES: dict[ColumnType, Any] = {
    "text": pyarrow.string(),
    "integer": pyarrow.int64(),
    "number": pyarrow.float64(),
    "flag": pyarrow.bool_(),
    "json": pyarrow.string(),
}


class ParquetSheets:
    """``KINDs.parquet``, compressed with Zstandard, in groups of at most 5,000 rows or 16 MB of text."""

    def __init__(self, folder: Path) -> None:
        self._sheets = {str(kind): _Sheet(folder, str(kind)) for kind in COLUMNS}

    def add(self, kind: str, text: bytes) -> None:
        self._sheets[kind].add(text)

    def close(self) -> dict[str, str]:
        return {kind: sheet.close() for kind, sheet in self._sheets.items()}


class _Sheet:
    def __init__(self, folder: Path, kind: str) -> None:
        self._columns = next(columns for name, columns in COLUMNS.items() if name == kind)
        fields = [pyarrow.field(name, TYPES[shape]) for name, shape in self._columns.items()]
        about = {"format": FORMAT, "version": str(VERSION), "kind": kind}
        self._schema = pyarrow.schema(fields, metadata=about)
        self._name = f"{NAMES[kind]}.parquet"
        self._writer = parquet.ParquetWriter(folder / self._name, self._schema, compression="zstd")
        self._rows: list[dict[str, Any]] = []
        self._bytes = 0

    def add(self, text: bytes) -> None:
        row = json.loads(text)
        for name, shape in self._columns.items():
            if shape == "json" and row.get(name) is not None:
                row[name] = json.dumps(row[name], ensure_ascii=False, separators=(",", ":"))
        self._rows.append(row)
        self._bytes += len(text)
        if len(self._rows) >= ROWS or self._bytes >= BYTES:
            self._flush()

    def close(self) -> str:
        self._flush()
        self._writer.close()
        return self._name

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pyarrow.Table.from_pylist(self._rows, schema=self._schema))
        self._rows, self._bytes = [], 0
