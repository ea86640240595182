"""DuckDB as a kind of engine, for those who open a source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import duckdb

from dpsql.engines.base import Engine, Find, UnitPlace
from dpsql.engines.duckdb import drafting, sources
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.signature import ALL_FILES, FileParts
from dpsql.schema.drafted import DraftTable
from dpsql.schema.model import Schema


@dataclass(frozen=True, slots=True)
class DuckDBKind:
    """Parquet and CSV files of a folder, or the tables of a DuckDB file: a source with no scheme, or `duckdb:`."""

    @property
    def version(self) -> str:
        return f"{duckdb.__version__}, one zero"

    def begin(
        self,
        schema: Schema,
        find: Find,
        outputs: Iterable[Path] = (),
        only: FileParts = ALL_FILES,
    ) -> Engine:
        return DuckDBEngine.begin(schema, find=find, outputs=outputs, only=only)

    def places(self, schema: Schema) -> tuple[UnitPlace, ...]:
        """The files that hold the units: the unit's table, or, where each row is one, every private table."""
        path = sources.root(schema)
        if not path.is_dir():
            return (UnitPlace(str(path), path),)
        # the folder of files that a pattern names: which ones they are changes
        named = [path / table.source for table in schema.tables_of_units]
        files = dict.fromkeys((file.parent if "*" in file.name else file).resolve() for file in named)
        return tuple(UnitPlace(str(file), file) for file in files)

    def describe(self, source: str, *, sniff: bool = False) -> tuple[str, str, list[DraftTable]]:
        path = Path(sources.bare(source)).resolve()
        return path.stem if path.is_file() else path.name, str(path), drafting.describe(path, sniff=sniff)

    def require_copies(self, schema: Schema) -> None:
        """It makes them."""


KIND = DuckDBKind()
